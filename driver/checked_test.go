package driver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// reached is a driver that counts the calls that reach it.
type reached struct {
	driver.Driver
	calls int
}

type reachedSession struct {
	driver.Session
	d *reached
}

func (d *reached) Open(context.Context, driver.SessionOptions) (*driver.Opened, error) {
	d.calls++
	return &driver.Opened{Session: reachedSession{d: d}, TTL: time.Second}, nil
}
func (d *reached) Load(context.Context, string) (driver.Cell, error) { return driver.Cell{}, d.call() }
func (d *reached) Swap(context.Context, driver.Swap) (driver.Cell, error) {
	return driver.Cell{}, d.call()
}
func (d *reached) Watch(context.Context, string, uint64) (driver.Cell, error) {
	return driver.Cell{}, d.call()
}
func (d *reached) Follow(context.Context, string, string) (driver.Queue, error) {
	return driver.Queue{}, d.call()
}
func (d *reached) Ask(context.Context, string, string, driver.Demand) error { return d.call() }
func (d *reached) Raise(context.Context, string, uint64) error              { return d.call() }
func (d *reached) Resize(context.Context, string, int64) error              { return d.call() }
func (s reachedSession) Join(context.Context, driver.Request) (driver.Ticket, error) {
	return driver.Ticket{}, s.d.call()
}
func (s reachedSession) Await(context.Context, driver.Ticket) (driver.Ticket, error) {
	return driver.Ticket{}, s.d.call()
}
func (s reachedSession) Shrink(context.Context, driver.Ticket, int64) error       { return s.d.call() }
func (s reachedSession) Keep(context.Context, driver.Ticket, time.Duration) error { return s.d.call() }
func (s reachedSession) Leave(context.Context, driver.Ticket, bool) error         { return s.d.call() }
func (s reachedSession) Renew(context.Context, []driver.Ticket) ([]driver.Renewed, error) {
	return nil, s.d.call()
}
func (d *reached) call() error { d.calls++; return nil }

// Each argument that a call takes is given to it as it must not be, beside ones that are right.
func TestWrongArgumentsReachNoDriver(t *testing.T) {
	ctx := t.Context()
	inner := &reached{}
	d := driver.Checked(inner)
	if driver.Checked(d) != d {
		t.Error("a driver is checked twice")
	}
	opened := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: time.Second}))(t)
	s := driver.Session(opened)
	id := strings.Repeat("0a", 16)
	good := driver.Ticket{ID: id, Queue: "q"}
	request := driver.Request{ID: id, Queue: "q", Kind: driver.Semaphore, Units: 1, Capacity: 5}
	swap := driver.Swap{ID: id, Name: "c", Value: make([]byte, driver.MaxCell)}
	is := func(want error, what string, err error) {
		t.Helper()
		before := inner.calls
		inner.calls = 0
		switch {
		case !errors.Is(err, want):
			t.Errorf("%s: %v, not %v", what, err, want)
		case want == nil && before != 1:
			t.Errorf("%s: %d calls of the driver", what, before)
		case want != nil && before != 0:
			t.Errorf("%s reaches the driver", what)
		}
	}
	is(nil, "Open", nil)
	ticket := func(want error, about string, tk driver.Ticket) {
		t.Helper()
		r := request
		r.ID, r.Queue = tk.ID, tk.Queue
		is(want, "Join with "+about, errorOf(s.Join(ctx, r)))
		is(want, "Await with "+about, errorOf(s.Await(ctx, tk)))
		is(want, "Shrink with "+about, s.Shrink(ctx, tk, 1))
		is(want, "Keep with "+about, s.Keep(ctx, tk, 1))
		is(want, "Leave with "+about, s.Leave(ctx, tk, true))
		is(want, "Renew with "+about, errorOf(s.Renew(ctx, []driver.Ticket{good, tk})))
		if tk.Queue != good.Queue || len(tk.ID) == 32 && want == nil {
			is(want, "Ask with "+about, d.Ask(ctx, tk.Queue, tk.ID, driver.Evict))
		}
	}
	ticket(nil, "what is right", good)
	for about, bad := range map[string]string{
		"no ID": "", "a short ID": id[:31], "a long ID": id + "0",
		"an ID in upper case": strings.Repeat("A", 32), "an ID of other letters": strings.Repeat("g", 32),
	} {
		ticket(driver.ErrInvalid, about, driver.Ticket{ID: bad, Queue: "q"})
		w := swap
		w.ID = bad
		is(driver.ErrInvalid, "Swap with "+about, errorOf(d.Swap(ctx, w)))
	}
	for about, bad := range map[string]string{"an empty name": "", "dots": "a/../b", "no UTF-8": "a\xff", "a control character": "a\x00b",
		"the last one before a space": "a\x1fb", "a delete character": "a\x7fb", "a control character beyond ASCII": "a\u0085b",
		"an opening brace": "a{b", "a closing brace": "ab}", "a private character": "a\ue000", "no character": "a\uffff",
	} {
		ticket(driver.ErrInvalid, about, driver.Ticket{ID: id, Queue: bad})
		w := swap
		w.Name = bad
		is(driver.ErrInvalid, "Swap with "+about, errorOf(d.Swap(ctx, w)))
		is(driver.ErrInvalid, "Load with "+about, errorOf(d.Load(ctx, bad)))
		is(driver.ErrInvalid, "Watch with "+about, errorOf(d.Watch(ctx, bad, 0)))
		is(driver.ErrInvalid, "Follow with "+about, errorOf(d.Follow(ctx, bad, "")))
		if bad != "" { // which stands for all queues
			is(driver.ErrInvalid, "Raise with "+about, d.Raise(ctx, bad, 1))
		}
	}
	for about, change := range map[string]func(r *driver.Request){
		"no kind":              func(r *driver.Request) { r.Kind = "" },
		"no units":             func(r *driver.Request) { r.Units = 0 },
		"negative units":       func(r *driver.Request) { r.Units = -1 },
		"more than can be":     func(r *driver.Request) { r.Units = 6 },
		"no capacity":          func(r *driver.Request) { r.Units, r.Capacity = 0, 0 },
		"a negative capacity":  func(r *driver.Request) { r.Units, r.Capacity = -1, -1 },
		"too large a capacity": func(r *driver.Request) { r.Capacity = driver.MaxCapacity + 1 },
		"a negative hold":      func(r *driver.Request) { r.Hold = -1 },
	} {
		r := request
		change(&r)
		is(driver.ErrInvalid, "Join with "+about, errorOf(s.Join(ctx, r)))
	}
	for _, ttl := range []time.Duration{0, -1, -time.Hour} {
		is(driver.ErrInvalid, "Open with a TTL of "+ttl.String(), errorOf(d.Open(ctx, driver.SessionOptions{TTL: ttl})))
		is(driver.ErrInvalid, "Keep for "+ttl.String(), s.Keep(ctx, good, ttl))
	}
	for _, units := range []int64{0, -1} {
		is(driver.ErrInvalid, "Shrink to nothing", s.Shrink(ctx, good, units))
	}
	for _, bad := range []string{"", "\xff", "a\x00b", strings.Repeat("a", 513)} {
		is(driver.ErrInvalid, "Ask for what no ticket can have as its ID", d.Ask(ctx, "q", bad, driver.Evict))
	}
	is(nil, "Ask for a ticket of another library", d.Ask(ctx, "q", "pid-1", driver.Evict))
	for _, what := range []driver.Demand{0, driver.Wanted, driver.Doubt, driver.Doubt + 1} {
		is(driver.ErrInvalid, "Ask for another demand", d.Ask(ctx, "q", id, what))
	}
	for _, name := range []string{"q", ""} {
		is(driver.ErrInvalid, "Raise to the last token", d.Raise(ctx, name, driver.MaxToken-1))
	}
	is(nil, "Raise of all queues", d.Raise(ctx, "", driver.MaxToken-2))
	is(nil, "Swap of the largest value", errorOf(d.Swap(ctx, swap)))
	swap.Value = append(swap.Value, 0)
	is(driver.ErrTooLarge, "Swap of a larger value", errorOf(d.Swap(ctx, swap)))
	swap.Delete = true
	is(nil, "Swap that deletes", errorOf(d.Swap(ctx, swap)))
}

func errorOf(_ any, err error) error { return err }
