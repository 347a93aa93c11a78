package drivertest

import (
	"errors"
	"reflect"

	"github.com/interlock-go/interlock/driver"
)

// Some middle boxes, and the pools behind them, send a request again whose reply they have not seen. The
// rule finds the driver of package exchange itself; another one is asked for nothing twice by the network.
var repeater = rule{
	name: "Repeater",
	says: []string{"An exchange that the network brings twice takes effect once."},
	check: func(t *trial) {
		a, b, plain := t.session(t.repeating(), 10*limit), t.session(t.repeating(), 10*limit), t.driver()
		leave := func(c *client, tk driver.Ticket) {
			t.Helper()
			if err := c.Leave(t.ctx, tk, true); err != nil && !errors.Is(err, driver.ErrGone) {
				t.Fatalf("Leave: %v", err)
			}
		}
		// An error that leaves open what became of it is repeated, as always.
		join := func(c *client, r driver.Request) (tk driver.Ticket, err error) {
			t.Helper()
			err = t.known(func() error {
				tk, err = c.Join(t.ctx, r)
				r.Retry = true
				return err
			})
			return tk, err
		}
		stands := func(c *client, r driver.Request, held bool) driver.Ticket {
			t.Helper()
			tk, err := join(c, r)
			if err != nil || tk.Held != held {
				t.Fatalf("Join: %+v, %v", tk, err)
			}
			return tk
		}
		var last uint64
		cell := driver.Cell{}
		for range 3 {
			held := stands(a, t.exclusive("q"), true)
			next := stands(b, t.exclusive("q"), false)
			if _, err := join(a, nowait(t.exclusive("q"))); !errors.Is(err, driver.ErrBusy) {
				t.Fatalf("Join with NoWait of what is held: %v", err)
			}
			t.stands(plain, "q", []driver.Ticket{held}, []driver.Ticket{next})
			if err := b.driver.Ask(t.ctx, "q", held.ID, driver.Revoke); err != nil {
				t.Fatalf("Ask: %v", err)
			}
			for c, tk := range map[*client]driver.Ticket{a: held, b: next} {
				if r := c.renew(tk); len(r) != 1 || r[tk.ID].State != driver.Kept {
					t.Fatalf("Renew: %+v", r)
				}
			}
			leave(a, held)
			got := b.await(next)
			if held.Token <= last || got.Token <= held.Token {
				t.Fatalf("the tokens %d, %d and %d", last, held.Token, got.Token)
			}
			last = got.Token
			leave(b, got)
			t.stands(plain, "q", nil, nil)
			cell = t.swap(a.driver, set("c", cell.Version, "v"))
		}
		w := stands(a, writer("rw"), true)
		r := stands(b, reader("rw"), false)
		if err := a.Shrink(t.ctx, w, 1); err != nil {
			t.Fatalf("Shrink: %v", err)
		}
		b.await(r)
		if err := a.Close(t.ctx); err != nil && !errors.Is(err, driver.ErrSession) {
			t.Fatalf("Close: %v", err)
		}
		t.stands(plain, "rw", []driver.Ticket{r}, nil)
		leave(b, r)
		t.stands(plain, "rw", nil, nil)
	},
}

// repeating opens a driver that makes each exchange twice.
func (t *trial) repeating() driver.Driver {
	t.Helper()
	d := t.driver()
	for inner := d; ; {
		if r, ok := inner.(interface{ Repeat() }); ok {
			r.Repeat()
			return d
		}
		v := reflect.Indirect(reflect.ValueOf(inner))
		if v.Kind() == reflect.Struct {
			v = v.FieldByName("Driver") // of one that wraps it
		}
		var ok bool
		if v.IsValid() && v.CanInterface() {
			inner, ok = v.Interface().(driver.Driver)
		}
		if !ok {
			t.Fatalf("%T is no driver of package exchange; list Repeater as unsupported, with the reason", d)
		}
	}
}
