package drivertest

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A backend that sends to its clients may let others send to them as well.
var _ = rules.Add(rule{Name: "Stranger", Hook: "Stranger", Says: []string{
	"What a client is sent without having asked is no more than a reason to ask, unless it proves that its sender may change the ticket.",
}}, func(t *trial) {
	t.withstand(func(a, b *client, held, _ driver.Ticket, _ driver.Swap) {
		t.world.Stranger([]*driver.Opened{a.Opened, b.Opened}, held.Token)
	})
})

// Whoever is let at the backend without rights tries all that a client can.
var _ = rules.Add(rule{Name: "NoRights", Hook: "NoRights", Says: []string{
	"Who has no rights at the backend changes no ticket, no token and no cell.",
}}, func(t *trial) {
	t.withstand(func(_, _ *client, held, waiting driver.Ticket, cell driver.Swap) {
		ctx, cancel := context.WithTimeout(t.Ctx, 10*time.Second)
		defer cancel()
		d, err := t.world.NoRights(ctx)
		if err != nil {
			t.Logf("it is not opened: %v", err)
			return
		}
		defer d.Close()
		var s driver.Session
		if o, err := d.Open(ctx, driver.SessionOptions{TTL: 10 * limit}); err != nil {
			t.Logf("no session: %v", err)
		} else {
			s = o
		}
		for _, tk := range []driver.Ticket{held, waiting} {
			for name, call := range everyCall(d, s, tk, t.exclusive("free"), cell) {
				if name == "Watch" || name == "Follow" || name == "Await" {
					continue // which change nothing, and wait
				}
				brief, stop := context.WithTimeout(ctx, time.Second)
				err := call(brief)
				stop()
				t.FatalIf(err == nil && changes[name], "%s of who has no rights succeeds", name)
			}
			for what, err := range map[string]error{
				"Force":  d.Ask(ctx, tk.Queue, tk.ID, driver.Force),
				"Raise":  d.Raise(ctx, tk.Queue, held.Token+stolen),
				"Resize": d.Resize(ctx, tk.Queue, 7),
			} {
				t.FatalIf(err == nil, "%s of who has no rights succeeds", what)
			}
		}
	})
	if q := t.snapshot(t.driver(), "free"); len(q.Members) > 0 {
		t.Fatalf("who has no rights stands in the queue %+v", q)
	}
})

// changes are the calls of everyCall that change something if they succeed.
var changes = map[string]bool{"Swap": true, "Ask": true, "Raise": true, "Join": true, "Keep": true, "Leave": true}

// stolen is by how much tokens are raised by who may not.
const stolen = 1 << 40

// everyCall is a call of each method that goes to the backend, by its name. Without a session there are those of
// the driver.
func everyCall(d driver.Driver, s driver.Session, tk driver.Ticket, r driver.Request, cell driver.Swap) map[string]func(context.Context) error {
	calls := map[string]func(ctx context.Context) error{
		"Open": func(ctx context.Context) error {
			_, err := d.Open(ctx, driver.SessionOptions{TTL: time.Second})
			return err
		},
		"Load":   func(ctx context.Context) error { _, err := d.Load(ctx, cell.Name); return err },
		"Swap":   func(ctx context.Context) error { _, err := d.Swap(ctx, cell); return err },
		"Watch":  func(ctx context.Context) error { _, err := d.Watch(ctx, "other", 0); return err },
		"Follow": func(ctx context.Context) error { _, err := d.Follow(ctx, tk.Queue, ""); return err },
		"Queues": func(ctx context.Context) error { return ended(d.Queues(ctx, "")) },
		"Cells":  func(ctx context.Context) error { return ended(d.Cells(ctx, "")) },
		"Ask":    func(ctx context.Context) error { return d.Ask(ctx, tk.Queue, tk.ID, driver.Revoke) },
		"Raise":  func(ctx context.Context) error { return d.Raise(ctx, tk.Queue, 1) },
	}
	if s == nil {
		return calls
	}
	calls["Join"] = func(ctx context.Context) error { _, err := s.Join(ctx, r); return err }
	calls["Await"] = func(ctx context.Context) error { _, err := s.Await(ctx, tk); return err }
	calls["Keep"] = func(ctx context.Context) error { return s.Keep(ctx, tk, 10*limit) }
	calls["Renew"] = func(ctx context.Context) error { _, err := s.Renew(ctx, []driver.Ticket{tk}); return err }
	calls["Leave"] = func(ctx context.Context) error { return s.Leave(ctx, tk, true) }
	return calls
}

// withstand has somebody attack a ticket that is held, one that waits for it, and a cell, and makes sure that nothing
// has come of it.
func (t *trial) withstand(attack func(a, b *client, held, waiting driver.Ticket, cell driver.Swap)) {
	a, b, c := t.client(), t.client(), t.driver()
	held := a.hold(t.exclusive("q"))
	waiting := b.wait(t.exclusive("q"))
	cell := t.swap(c, set("c", 0, "v"))
	told := make(chan driver.Signal, 100)
	ctx, cancel := context.WithCancel(t.Ctx)
	defer cancel()
	t.Calls.Go(func() {
		for {
			s, err := a.Signals(ctx)
			if err != nil {
				return
			}
			if s.Demand != driver.Wanted {
				told <- s
			}
		}
	})
	granted := b.awaiting(waiting)
	got := make(chan driver.Ticket, 1)
	t.Calls.Go(func() { got <- granted() })

	attack(a, b, held, waiting, set("c", cell.Version, "stolen"))
	t.holds(c, "c", cell)
	// What is sent in earnest comes after it; to those who wait for nothing, with a heartbeat.
	defer a.beat(held)()
	t.OK(c.Ask(t.Ctx, "q", held.ID, driver.Revoke), "Ask")
	select {
	case s := <-told:
		t.FatalIf(s.Demand != driver.Revoke, "a stranger has sent the signal %+v", s)
	case <-t.Ctx.Done():
		t.Fatalf("the holder does not hear that it is to give up")
	}
	t.FatalIf(len(got) > 0, "a stranger has granted the ticket that waits, while %+v is held", held)
	for _, r := range []driver.Renewed{a.renew(held)[held.ID], b.renew(waiting)[waiting.ID]} {
		t.FatalIf(r.State != driver.Kept, "Renew, after messages of a stranger: %+v", r)
	}
	t.stands(c, "q", []driver.Ticket{held}, []driver.Ticket{waiting})
	a.leave(held)
	tk := <-got
	if is := t.snapshot(c, "q").Members[0]; tk.Token != is.Token || tk.Token <= held.Token || tk.Token >= held.Token+stolen {
		t.Fatalf("granted as %+v after %+v, and the queue has %+v", tk, held, is)
	}
}
