package drivertest

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// A backend that sends to its clients may let others send to them as well. A backend to which
// nobody else can send has no World.Stranger, and keeps the rule.
var stranger = rule{
	name: "Stranger",
	says: []string{"What a client is sent without having asked is no more than a reason to ask, unless it proves that its sender may change the ticket."},
	check: func(t *trial) {
		if t.world.Stranger == nil {
			return
		}
		a, b, c := t.client(), t.client(), t.driver()
		held := a.hold(t.exclusive("q"))
		waiting := b.wait(t.exclusive("q"))
		told := make(chan driver.Signal, 100)
		ctx, cancel := context.WithCancel(t.ctx)
		defer cancel()
		t.calls.Go(func() {
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
		t.calls.Go(func() { got <- granted() })

		t.world.Stranger([]*driver.Opened{a.Opened, b.Opened}, held.Token)
		// What is sent in earnest comes after it; to those who wait for nothing, with a heartbeat.
		defer a.beat(held)()
		if err := c.Ask(t.ctx, "q", held.ID, driver.Revoke); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		select {
		case s := <-told:
			if s.Demand != driver.Revoke {
				t.Fatalf("a stranger has sent the signal %+v", s)
			}
		case <-t.ctx.Done():
			t.Fatalf("the holder does not hear that it is to give up")
		}
		select {
		case tk := <-got:
			t.Fatalf("a stranger has granted %+v, while %+v is held", tk, held)
		default:
		}
		for _, r := range []driver.Renewed{a.renew(held)[held.ID], b.renew(waiting)[waiting.ID]} {
			if r.State != driver.Kept {
				t.Fatalf("Renew, after messages of a stranger: %+v", r)
			}
		}
		t.stands(c, "q", []driver.Ticket{held}, []driver.Ticket{waiting})
		a.leave(held)
		tk := <-got
		if is := t.snapshot(c, "q").Members[0]; tk.Token != is.Token || tk.Token <= held.Token {
			t.Fatalf("granted as %+v after %+v, and the queue has %+v", tk, held, is)
		}
	},
}
