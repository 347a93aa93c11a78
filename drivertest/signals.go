package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
)

const delivered = "Each is delivered at least once, at the latest with the next Renew."

// signal waits for a demand for the ticket. Other signals, and the same one
// again, may come before it; one for a stranger's ticket may not.
func (c *client) signal(want driver.Demand, tk driver.Ticket, own ...driver.Ticket) {
	c.signals([]driver.Demand{want}, tk, own...)
}

// hears reads the signals of a session until there is one that is meant.
func hears(ctx context.Context, s driver.Session, is func(driver.Signal) bool) (driver.Signal, error) {
	for {
		if got, err := s.Signals(ctx); err != nil || is(got) {
			return got, err
		}
	}
}

// signals waits for several signals, in any order: one of another kind is not lost.
func (c *client) signals(want []driver.Demand, tk driver.Ticket, own ...driver.Ticket) {
	stop := c.beat(append(own, tk)...)
	defer stop()
	own = append(own, tk)
	for want = slices.Clone(want); len(want) > 0; {
		s, err := hears(c.t.Ctx, c, func(s driver.Signal) bool { return s.Demand != driver.Doubt })
		c.t.OK(err, "Signals, waiting for demands %d", want)
		known := slices.ContainsFunc(own, func(o driver.Ticket) bool { return o.ID == s.ID })
		c.t.FatalIf(!known, "Signals: %+v is for a ticket of another session", s)
		if i := slices.Index(want, s.Demand); i >= 0 && s.ID == tk.ID {
			c.t.FatalIf(s.Queue != tk.Queue, "Signals: %+v for a ticket in %q", s, tk.Queue)
			want = slices.Delete(want, i, i+1)
		}
	}
}

var _ = rules.Add(rule{Name: "Wanted", Exclusive: true, Across: true, Says: []string{
	"another ticket waits behind this held one; not for Ask",
	delivered,
}}, func(t *trial) {
	a, b, first, second := t.holderAndWaiter("q")
	c := t.client()
	a.signal(driver.Wanted, first)
	third := c.wait(t.exclusive("q")) // behind the second before that one is held
	a.leave(first)
	b.signal(driver.Wanted, b.await(second))
	b.leave(second)
	c.await(third)

	// Nobody wants it: nothing is said.
	ctx, cancel := t.soon()
	defer cancel()
	s, err := hears(ctx, c, func(s driver.Signal) bool { return s.Demand == driver.Wanted })
	t.Is(err, context.DeadlineExceeded, "Signals of a ticket that nobody waits for: %+v", s)
})

// Others are as quick as the answer: the news that somebody waits, or asks for the
// ticket, can be there before its holder knows of it.
var _ = rules.Add(rule{Name: "SignalsBeforeTheAnswer", Hook: "Late", Says: []string{
	"One can come before the answer of its ticket's Join.",
	delivered,
}}, func(t *trial) {
	clients := []*client{t.client(), t.client()}
	for _, c := range clients { // their connections are made
		tk := c.hold(t.exclusive("before"))
		c.renew(tk)
		c.leave(tk)
	}
	requests := []driver.Request{t.exclusive("q"), t.exclusive("q")}
	tickets := make([]driver.Ticket, 2)
	t.disturbs = true
	resume := t.world.Late()
	var joins []func()
	for i, c := range clients {
		joins = append(joins, t.Go(func() { tickets[i] = c.join(requests[i]) }))
		time.Sleep(20 * time.Millisecond) // the first holds; if not, the other one does
	}
	asked := t.Done(func() error {
		return t.known(func() error { return clients[1].driver.Ask(t.Ctx, "q", requests[0].ID, driver.Revoke) })
	})
	time.Sleep(20 * time.Millisecond)
	resume()
	for _, joined := range joins {
		joined()
	}
	revoked := <-asked
	if revoked != nil && !errors.Is(revoked, driver.ErrGone) { // it came before the Join
		t.Fatalf("Ask: %v", revoked)
	}
	for i, c := range clients {
		var due []driver.Demand
		if i == 0 && revoked == nil {
			due = append(due, driver.Revoke)
		}
		if tickets[i].Held {
			due = append(due, driver.Wanted)
		}
		c.signals(due, tickets[i])
	}
})

// All that are held in front of a waiter are wanted, and so is one that is
// waiting when the signal before it was given.
var _ = rules.Add(rule{Name: "WantedReaders", Says: []string{
	"another ticket waits behind this held one; not for Ask",
	delivered,
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	r1, r2, r3 := a.hold(reader("q")), b.hold(reader("q")), a.hold(reader("q"))
	w := c.wait(writer("q"))
	b.signal(driver.Wanted, r2)
	a.signal(driver.Wanted, r1, r3)
	a.signal(driver.Wanted, r3, r1)
	c.leave(w)
})

var _ = rules.Add(rule{Name: "Ask", Exclusive: true, Says: []string{
	"Ask sends Revoke or Evict to the ticket, or removes it at once (Force).",
	"A ticket that does not stand: ErrGone.",
	"Tickets of another library have IDs of another form, which every driver takes.",
	"please give it up",
	"it is not renewed any more",
	"another ticket waits behind this held one; not for Ask",
	"the connection is in doubt, all tickets are concerned; not for Ask",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	for _, what := range []driver.Demand{driver.Revoke, driver.Evict} {
		b.ask(held, what)
		a.signal(what, held)
		b.ask(held, what)
	}
	for _, what := range []driver.Demand{driver.Revoke, driver.Evict, driver.Force} {
		for _, queue := range []string{"q", "empty"} {
			t.Is(b.driver.Ask(t.Ctx, queue, newID(), what), driver.ErrGone, "Ask (%d) for a ticket that does not stand", what)
		}
	}
	for _, id := range []string{"pid-1", "42a6a219558d8831", "a program of others"} {
		t.Is(b.driver.Ask(t.Ctx, "q", id, driver.Evict), driver.ErrGone, "Ask for a ticket of another library that does not stand, %q", id)
	}
	a.leave(held)
	t.Is(b.driver.Ask(t.Ctx, "q", held.ID, driver.Revoke), driver.ErrGone, "Ask for a ticket that has left")
})

var _ = rules.Add(rule{Name: "Force", Across: true, Exclusive: true, Says: []string{
	"it is taken away at once: unsafe; for Ask only",
}}, func(t *trial) {
	a, b, held, next := t.holderAndWaiter("q")
	c := t.client()
	last := c.wait(t.exclusive("q"))
	c.ask(held, driver.Force)
	t.stands(a.driver, "q", []driver.Ticket{next}, []driver.Ticket{last})
	b.await(next)
	a.gone(held)
	a.says(driver.Gone, held)
	t.Is(a.Leave(t.Ctx, held, true), driver.ErrGone, "Leave of a ticket that was taken away")
	a.ask(last, driver.Force)
	c.gone(last)
	for range 10 { // the next heartbeat says so, however soon it is
		held := a.hold(t.exclusive("soon"))
		b.ask(held, driver.Force)
		a.says(driver.Gone, held)
	}
	if !t.fixes() {
		return
	}
	fixed := a.hold(t.fixed("fixed", 10*limit))
	b.ask(fixed, driver.Force)
	t.stands(a.driver, "fixed", nil, nil)
})

var _ = rules.Add(rule{Name: "EvictionOfAHeldTicket", Exclusive: true, Says: []string{
	"An evicted ticket that is held is not renewed any more: it leaves when its session leaves it, or when its TTL has run out, whichever comes first",
}}, func(t *trial) {
	b, c, m := t.client(), t.client(), t.mortal()

	// Its session goes on renewing it in vain.
	lost := m.lease(m.hold(t.exclusive("r")))
	lost.renewFor(0, nil)
	heir := b.behind(t.exclusive("r"))
	t.okBefore(c.driver, lost.end(), c.driver.Ask(t.Ctx, "r", lost.ticket.ID, driver.Evict), "Ask")
	for {
		answer, err := m.Renew(t.Ctx, []driver.Ticket{lost.ticket})
		if errors.Is(err, driver.ErrSession) || err == nil && len(answer) == 1 && answer[0].State == driver.Gone {
			break
		}
		t.FatalIf(driver.IsPermanent(err) || err == nil && (len(answer) != 1 || answer[0].State != driver.Evicted),
			"Renew of an evicted ticket: %+v, %v", answer, err)
		time.Sleep(t.TTL / 5)
	}
	heir.notBefore(lost.end(), "which was evicted")

	// Its session leaves it: the next one comes at once.
	a := t.client()
	held := a.hold(t.exclusive("q"))
	next := b.wait(t.exclusive("q"))
	c.ask(held, driver.Evict)
	t.stands(c.driver, "q", []driver.Ticket{held}, []driver.Ticket{next})
	a.leave(held)
	t.stands(c.driver, "q", []driver.Ticket{next}, nil)
})

var _ = rules.Add(rule{Name: "EvictionOfAWaitingTicket", Says: []string{
	"An evicted ticket that waits leaves at once.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	held := a.hold(permits("q", 1, 5))
	big := b.wait(permits("q", 5, 5))
	small := c.wait(permits("q", 1, 5))
	done := b.awaits(big)
	a.ask(big, driver.Evict)
	t.stands(a.driver, "q", []driver.Ticket{held, small}, nil)
	stop := b.beat(big)
	t.Is(<-done, driver.ErrGone, "Await of a waiting ticket that is evicted")
	stop()
	c.await(small)
})

var _ = rules.Add(rule{Name: "EvictionOfAFixedTicket", Says: []string{
	"One that was joined with Hold keeps its end, which its holder may rely on without a renewal.",
}}, func(t *trial) {
	a, b, c := t.mortal(), t.client(), t.client()
	kept := c.hold(t.fixed("kept", 10*limit))
	for _, what := range []driver.Demand{driver.Revoke, driver.Evict} {
		b.ask(kept, what)
		c.signal(what, kept)
	}

	for queue, hold := range map[string]time.Duration{"short": t.TTL / 2, "long": 2 * a.TTL} {
		fixed := a.hold(t.fixed(queue, hold))
		end := fixed.Proof.Add(hold)
		t.okBefore(b.driver, end, b.driver.Ask(t.Ctx, queue, fixed.ID, driver.Evict), "Ask")
		b.behind(t.exclusive(queue)).begins(end, "which was evicted and has a fixed end")
	}
})
