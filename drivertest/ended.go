package drivertest

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// A renewal that comes too late revives nothing: others may have acted upon the end, or
// have seen that there is nobody.
var _ = rules.Add(rule{Name: "WhatHasEndedIsNotRenewed", Exclusive: true, Says: []string{
	"A ticket that has not been renewed for the session's TTL leaves by itself, held or waiting.",
	"Once a session is over every method returns ErrSession.",
}}, func(t *trial) {
	a, b, c := t.mortal(), t.client(), t.mortal()
	held, forgotten := a.lease(a.hold(t.exclusive("q"))), c.lease(c.hold(t.exclusive("forgotten")))
	time.Sleep(t.TTL / 2)
	t.okBefore(c.driver, forgotten.end(), suite.Err(c.Renew(t.Ctx, nil)), "Renew")
	// One that names a ticket again, whose session stands, revives it as little as one of a session that has ended.
	t.Eventually("the end of a ticket that is not named", func() bool { return len(t.snapshot(b.driver, "forgotten").Members) == 0 })
	c.over(forgotten.ticket)
	t.Eventually("the end of a ticket that is not renewed", func() bool { return len(t.snapshot(b.driver, "q").Members) == 0 })
	a.over(held.ticket)
	t.stands(b.driver, "q", nil, nil)
})

// Neither a renewal that does not name a ticket nor an eviction gives it more time, also if the Join of the evicted one is repeated.
var _ = rules.Add(rule{Name: "NothingIsProlonged", Exclusive: true, Says: []string{
	"A ticket of this session that is not in known is not extended, and is reported as Stray",
	"An evicted ticket that is held is not renewed any more",
	"one with a fixed end is not shortened by more than that.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	const inexact = 5 * time.Millisecond // some backends count in milliseconds
	evict := func(tk driver.Ticket) {
		t.Helper()
		t.OK(b.driver.Ask(t.Ctx, tk.Queue, tk.ID, driver.Evict), "Ask")
	}
	left := func(queue string) time.Duration {
		t.Helper()
		m := t.snapshot(b.driver, queue).Members
		t.FatalIf(len(m) == 0, "the ticket in %q does not stand", queue)
		return m[0].Left
	}
	hows := []struct {
		queue string
		hold  time.Duration
		do    func(*client, driver.Ticket)
	}{
		{"not named", 0, func(c *client, _ driver.Ticket) { c.renew() }},
		{"evicted", 0, func(c *client, tk driver.Ticket) { evict(tk); c.renew(tk) }},
		{"evicted, with a fixed end", limit, func(c *client, tk driver.Ticket) { evict(tk); c.renew(tk) }},
	}
	if !t.fixes() {
		hows = hows[:2]
	}
	clients, tickets := make([]*client, len(hows)), make([]driver.Ticket, len(hows))
	for i, how := range hows {
		r := t.exclusive(how.queue)
		r.Hold = how.hold
		clients[i] = t.client()
		tickets[i] = clients[i].hold(r)
	}
	time.Sleep(t.TTL / 2) // a part of their time is over
	for i, how := range hows {
		before := left(how.queue)
		how.do(clients[i], tickets[i])
		after := left(how.queue)
		t.FatalIf(after > before+inexact, "a ticket that was %s had %v left before, and %v after", how.queue, before, after)
		clients[i].leave(tickets[i])
	}
	if t.world.Late == nil {
		return
	}

	// Nor does a Join that is repeated, since its answer was lost.
	a.leave(a.hold(t.exclusive("again"))) // so that the next one takes a single exchange
	r := t.exclusive("again")
	_ = lostAnswer(t.world.Late)(t.Ctx, func(ctx context.Context) error { _, err := a.Join(ctx, r); return err })
	if len(t.snapshot(b.driver, r.Queue).Members) == 0 {
		return // it has not come
	}
	evict(driver.Ticket{ID: r.ID, Queue: r.Queue})
	time.Sleep(t.TTL / 2)
	before := left(r.Queue)
	var got driver.Ticket
	t.OK(t.known(func() (err error) { got, err = a.Join(t.Ctx, again(r)); return err }), "Join of an evicted ticket, repeated")
	after := left(r.Queue)
	t.FatalIf(after > before+inexact,
		"an evicted ticket had %v left before its Join was repeated, and %v after", before, after)
	if more := got.Proof.Add(a.TTL).Sub(a.driver.Now().Add(after)); more > inexact {
		t.Fatalf("an evicted ticket that is joined again is proven for %v more than it stands", more)
	}
})
