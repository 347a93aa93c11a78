package drivertest

import (
	"reflect"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// Some middle boxes, and the pools behind them, send a request again whose reply they have not seen. The
// rule finds the driver of package exchange itself; another one is asked for nothing twice by the network.
var _ = rules.Add(rule{Name: "Repeater", Says: []string{
	"An exchange that the network brings twice takes effect once.",
}}, func(t *trial) {
	a, b, plain := t.session(t.repeating(), 10*limit), t.session(t.repeating(), 10*limit), t.driver()
	leave := func(c *client, tk driver.Ticket) {
		t.Helper()
		t.OK(suite.Unless(c.Leave(t.Ctx, tk, true), driver.ErrGone), "Leave")
	}
	// An error that leaves open what became of it is repeated, as always.
	join := func(c *client, r driver.Request) (tk driver.Ticket, err error) {
		t.Helper()
		err = t.known(func() error {
			tk, err = c.Join(t.Ctx, r)
			r.Retry = true
			return err
		})
		return tk, err
	}
	stands := func(c *client, r driver.Request, held bool) driver.Ticket {
		t.Helper()
		tk, err := join(c, r)
		t.FatalIf(err != nil || tk.Held != held, "Join: %+v, %v", tk, err)
		return tk
	}
	var last uint64
	cell := driver.Cell{}
	for range 3 {
		held := stands(a, t.exclusive("q"), true)
		next := stands(b, t.exclusive("q"), false)
		t.Is(suite.Of(join(a, nowait(t.exclusive("q")))), driver.ErrBusy, "Join with NoWait of what is held")
		t.stands(plain, "q", []driver.Ticket{held}, []driver.Ticket{next})
		t.OK(b.driver.Ask(t.Ctx, "q", held.ID, driver.Revoke), "Ask")
		for c, tk := range map[*client]driver.Ticket{a: held, b: next} {
			if r := c.renew(tk); len(r) != 1 || r[tk.ID].State != driver.Kept {
				t.Fatalf("Renew: %+v", r)
			}
		}
		leave(a, held)
		got := b.await(next)
		t.FatalIf(held.Token <= last || got.Token <= held.Token,
			"the tokens %d, %d and %d", last, held.Token, got.Token)
		last = got.Token
		leave(b, got)
		t.stands(plain, "q", nil, nil)
		cell = t.swap(a.driver, set("c", cell.Version, "v"))
	}
	w := stands(a, writer("rw"), true)
	r := stands(b, reader("rw"), false)
	t.OK(a.Shrink(t.Ctx, w, 1), "Shrink")
	b.await(r)
	t.OK(suite.Unless(a.Close(t.Ctx), driver.ErrSession), "Close")
	t.stands(plain, "rw", []driver.Ticket{r}, nil)
	leave(b, r)
	t.stands(plain, "rw", nil, nil)
})

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
		t.FatalIf(!ok, "%T is no driver of package exchange; list Repeater as unsupported, with the reason", d)
	}
}
