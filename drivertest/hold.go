package drivertest

import (
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

const fixedEnd = "The exception is a held ticket with a fixed end ([Request].Hold, [Session.Keep]): it ends at that time, whatever its session does."

// fixed asks for the queue for a fixed time.
func (t *T) fixed(queue string, d time.Duration) driver.Request {
	r := t.exclusive(queue)
	r.Hold = d
	return r
}

var holdEndsByItself = rule{
	name:      "HoldEndsByItself",
	says:      []string{fixedEnd},
	exclusive: true,
	check: func(t *T) {
		a, b := t.client(), t.client()
		held := a.hold(t.fixed("q", t.TTL/2))
		a.beat(held)
		next := b.behind(t.exclusive("q"), held.Proof.Add(t.TTL/2))
		b.awaitNotBefore(next, held.Proof.Add(t.TTL/2), "by its Hold")
		if r, ok := a.renew(held)[held.ID]; !ok || r.State != driver.Gone {
			t.Fatalf("Renew of a ticket whose Hold has ended: %+v", r)
		}
	},
}

var holdOutlivesItsSession = rule{
	name: "HoldOutlivesItsSession",
	says: []string{fixedEnd},
	check: func(t *T) {
		b := t.client()
		d := 5 * t.TTL / 2
		unrenewed := t.mortal()
		first := unrenewed.hold(t.fixed("unrenewed", d))

		closed := t.client()
		second := closed.hold(t.fixed("closed", d))
		if err := closed.Close(t.ctx); err != nil {
			t.Fatalf("Close: %v", err)
		}

		drv, err := t.world.Open(t.ctx)
		if err != nil {
			t.Fatalf("open a driver: %v", err)
		}
		dead := t.session(drv, t.TTL)
		third := dead.hold(t.fixed("dead", d))
		if err := drv.Close(); err != nil {
			t.Fatalf("Close of the driver: %v", err)
		}

		var next []driver.Ticket
		all := []driver.Ticket{first, second, third}
		for _, tk := range all {
			next = append(next, b.behind(t.exclusive(tk.Queue), tk.Proof.Add(d)))
		}
		for i, tk := range all {
			b.awaitNotBefore(next[i], tk.Proof.Add(d), "by its Hold, in the queue "+tk.Queue)
		}
	},
}

var holdBeginsWithTheGrant = rule{
	name: "HoldBeginsWithTheGrant",
	says: []string{"0: as long as it is renewed; else it ends this long after the grant"},
	check: func(t *T) {
		a, b := t.client(), t.client()
		front := b.hold(t.exclusive("q"))
		waiting := a.wait(t.fixed("q", t.TTL))
		next := b.wait(t.exclusive("q"))
		b.beat(next)
		time.Sleep(t.TTL / 2)
		b.leave(front)
		got := a.await(waiting)
		b.awaitNotBefore(next, got.Proof.Add(t.TTL), "by its Hold")
	},
}

var keep = rule{
	name: "Keep",
	says: []string{"Keep makes a held ticket end d from now, sooner or later than it would have, and whatever its session does."},
	check: func(t *T) {
		b := t.client()
		later := t.client()
		longer := later.hold(t.fixed("later", t.TTL/4))
		until := later.driver.Now().Add(2 * t.TTL)
		err := later.Keep(t.ctx, longer, 2*t.TTL)
		if errors.Is(err, driver.ErrGone) && later.driver.Now() >= longer.Proof.Add(t.TTL/4) {
			t.Logf("this machine paused; the Hold ended before Keep")
			until = 0
		} else if err != nil {
			t.Fatalf("Keep: %v", err)
		}

		sooner := t.client()
		shorter := sooner.hold(t.fixed("sooner", 10*limit))
		sooner.beat(shorter)
		soon := sooner.driver.Now().Add(t.TTL / 2)
		for range 2 { // a repetition counts from its own time
			if err := sooner.Keep(t.ctx, shorter, t.TTL/2); err != nil && sooner.driver.Now() < soon {
				t.Fatalf("Keep: %v", err)
			}
		}

		renewed := t.client()
		plain := renewed.hold(t.exclusive("plain"))
		renewed.beat(plain)
		plainEnd := renewed.driver.Now().Add(t.TTL)
		if err := renewed.Keep(t.ctx, plain, t.TTL); err != nil {
			t.Fatalf("Keep of a ticket without a fixed end: %v", err)
		}

		closed := t.client()
		left := closed.hold(t.exclusive("closed"))
		leftEnd := closed.driver.Now().Add(2 * t.TTL)
		if err := closed.Keep(t.ctx, left, 2*t.TTL); err != nil {
			t.Fatalf("Keep of a ticket without a fixed end: %v", err)
		}
		if err := closed.Close(t.ctx); err != nil {
			t.Fatalf("Close: %v", err)
		}

		for _, c := range []struct {
			queue string
			end   driver.Instant
		}{{"later", until}, {"sooner", soon}, {"plain", plainEnd}, {"closed", leftEnd}} {
			next := b.behind(t.exclusive(c.queue), c.end)
			b.awaitNotBefore(next, c.end, "by Keep, in the queue "+c.queue)
		}
	},
}

var keepByAnotherSession = rule{
	name:   "KeepByAnotherSession",
	says:   []string{"It also serves tickets of other sessions, by their ID, if they have a fixed end already.", "A ticket that does not stand: ErrGone."},
	across: true,
	check: func(t *T) {
		a, b := t.client(), t.client()
		fixed, plain := a.hold(t.fixed("fixed", 10*limit)), a.hold(t.exclusive("plain"))
		if err := a.Close(t.ctx); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if err := b.Keep(t.ctx, driver.Ticket{ID: plain.ID, Queue: "plain"}, limit); !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Keep of a ticket that does not stand: %v", err)
		}
		c := t.client()
		plain = c.hold(t.exclusive("plain"))
		if err := b.Keep(t.ctx, driver.Ticket{ID: plain.ID, Queue: "plain"}, limit); err == nil {
			t.Fatalf("Keep of another session's ticket without a fixed end succeeds")
		}
		if m := t.snapshot(b.driver, "plain").Members[0]; m.Fixed {
			t.Fatalf("another session gave the ticket a fixed end: %+v", m)
		}
		next := b.wait(t.exclusive("fixed"))
		b.beat(next)
		end := b.driver.Now().Add(t.TTL / 2)
		if err := b.Keep(t.ctx, driver.Ticket{ID: fixed.ID, Queue: "fixed"}, t.TTL/2); err != nil {
			t.Fatalf("Keep of another session's ticket: %v", err)
		}
		b.awaitNotBefore(next, end, "by Keep of another session")
	},
}
