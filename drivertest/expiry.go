package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const expires = "A ticket that has not been renewed for the session's TTL leaves by itself, held or waiting."

var _ = rules.Add(rule{Name: "ExpiryOfAHeldTicket", Exclusive: true, Says: []string{expires}}, func(t *trial) {
	a, b, c := t.mortal(), t.client(), t.client()
	held := a.lease(a.hold(t.exclusive("q")))
	next := b.behind(t.exclusive("q"))
	last := c.wait(t.exclusive("q"))
	next.notBefore(held.end(), "which nobody renewed")
	c.waits(last)
	t.stands(c.driver, "q", []driver.Ticket{next.Ticket}, []driver.Ticket{last})

	// Whoever held it is told so, and cannot take it from the next one.
	a.over(held.ticket)
	t.stands(c.driver, "q", []driver.Ticket{next.Ticket}, []driver.Ticket{last})
})

var _ = rules.Add(rule{Name: "ExpiryOfAWaitingTicket", Exclusive: true, Says: []string{expires}}, func(t *trial) {
	a, c := t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	began := a.driver.Now() // a ticket may end with its session
	b := t.mortal()
	next := b.wait(t.exclusive("q"))
	if t.fixes() {
		b.wait(t.fixed("q", 10*limit)) // its end would begin with the grant
	}
	last := c.wait(t.exclusive("q"))
	c.beat(last)
	t.Eventually("a waiting ticket runs out", func() bool { return len(t.snapshot(c.driver, "q").Members) == 2 })
	early := began.Add(b.TTL).Sub(a.driver.Now())
	t.FatalIf(early > 0, "a waiting ticket ran out %v before its TTL", early)
	t.stands(a.driver, "q", []driver.Ticket{held}, []driver.Ticket{last})
	if _, err := b.Await(t.Ctx, next); !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession) {
		t.Fatalf("Await of a ticket that has run out: %v", err)
	}
	a.leave(held)
	c.await(last)
})

// While something is free, whoever is first in line and needs more than that holds up
// those behind who would fit: only as long as its session lives.
var _ = rules.Add(rule{Name: "ExpiryOfAWaiterThatDoesNotFit", Says: []string{expires, firstCome}}, func(t *trial) {
	a, dead, b := t.client(), t.mortal(), t.client()
	held := a.hold(permits("q", 2, 3))
	waiter := dead.leaseOfWaiting(permits("q", 2, 3))
	small := b.join(permits("q", 1, 3))
	if small.Held {
		t.inTime(b.driver, waiter.end())
		t.Fatalf("a ticket passed one that waited in front of it")
	}
	b.beat(small)
	start := b.driver.Now()
	small = b.await(small)
	t.Logf("a waiter of a dead session passed in %v (TTL %v)", b.driver.Now().Sub(start), dead.TTL)
	t.stands(b.driver, "q", []driver.Ticket{held, small}, nil)
})

// Many waiters of a dead session in front hold up nobody for longer than one.
var _ = rules.Add(rule{Name: "ExpiryOfManyInARow", Says: []string{expires, firstCome}}, func(t *trial) {
	dead, a := t.mortal(), t.client()
	held := dead.lease(dead.join(t.exclusive("q")))
	for range 50 {
		dead.join(t.exclusive("q"))
	}
	next := a.behind(t.exclusive("q"))
	start := a.driver.Now()
	next.notBefore(held.end(), "which nobody renewed")
	t.Logf("51 tickets of a dead session passed in %v (TTL %v)", a.driver.Now().Sub(start), dead.TTL)
})

var _ = rules.Add(rule{Name: "RenewExtends", Says: []string{
	"A ticket belongs to the session that joined it and stands as long as that session renews it",
}}, func(t *trial) {
	a, b := t.mortal(), t.client()
	held := a.lease(a.hold(t.exclusive("q")))
	next := b.behind(t.exclusive("q"))
	held.renewFor(5*a.TTL/2, nil)
	next.notBefore(held.end(), "which was renewed")
})

var _ = rules.Add(rule{Name: "RenewOfAWaitingTicket", Says: []string{
	"A ticket belongs to the session that joined it and stands as long as that session renews it",
}}, func(t *trial) {
	a, b := t.mortal(), t.client()
	front := b.hold(t.exclusive("q"))
	waiting := a.leaseOfWaiting(t.exclusive("q"))
	waiting.renewFor(5*a.TTL/2, nil)
	b.leave(front)
	t.okBefore(a.driver, waiting.end(), suite.Err(a.Await(t.Ctx, waiting.ticket)), "Await of a ticket that was renewed while it waited")
})

const proofSays = "Proof is the local time from which the backend guarantees a held ticket for the session's TTL, or for its Hold: no other ticket takes its place before."

// The proof of a ticket is what its holder counts from; nobody else may hold
// before it plus the TTL, however it was got.
var _ = rules.Add(rule{Name: "Proof", Across: true, Says: []string{
	proofSays,
	"Now reads the steady clock that all proofs of this driver are in: the function [Now], unless the driver lives in simulated time.",
}}, func(t *trial) {
	b, front := t.client(), t.client()
	check := func(why string, l *lease) {
		now := l.driver.Now()
		t.FatalIf(l.proof > now || l.proof < now.Add(-limit),
			"the proof %v is not in the time of the driver, where it is %v", l.proof, now)
		b.behind(t.exclusive(l.ticket.Queue)).begins(l.end(), "by its proof "+why)
	}
	for i := range 4 { // at different parts of a TTL
		part := t.TTL * time.Duration(i) / 4
		queue := func(s string) string { return fmt.Sprintf("%s%d", s, i) }

		joins := t.mortal()
		check("from Join", joins.lease(joins.hold(t.exclusive(queue("join")))))

		renews := t.mortal()
		held := renews.lease(renews.hold(t.exclusive(queue("renew"))))
		time.Sleep(part)
		held.renewFor(0, nil)
		check("from Renew", held)

		awaits := t.mortal()
		first := front.hold(t.exclusive(queue("await")))
		waiting := awaits.leaseOfWaiting(t.exclusive(queue("await")))
		time.Sleep(part)
		front.leave(first)
		got, err := awaits.Await(t.Ctx, waiting.ticket)
		t.okBefore(awaits.driver, waiting.end(), err, "Await")
		check("from Await", awaits.lease(got))
	}
})

// A renewal that comes too late revives nothing: others may have acted upon the end, or
// have seen that there is nobody.
var _ = rules.Add(rule{Name: "WhatHasEndedIsNotRenewed", Exclusive: true, Says: []string{
	"A ticket that has not been renewed for the session's TTL leaves by itself, held or waiting.",
	"Once a session is over every method returns ErrSession.",
}}, func(t *trial) {
	a, b, c := t.mortal(), t.client(), t.mortal()
	held, forgotten := a.lease(a.hold(t.exclusive("q"))), c.lease(c.hold(t.exclusive("forgotten")))
	time.Sleep(t.TTL / 2)
	t.okBefore(c.driver, forgotten.end(), t.known(func() error { return suite.Err(c.Renew(t.Ctx, nil)) }), "Renew")
	// One that names a ticket again, whose session stands, revives it as little as one of a session that has ended.
	t.Eventually("the end of a ticket that is not named", func() bool { return len(t.snapshot(b.driver, "forgotten").Members) == 0 })
	c.over(forgotten.ticket)
	t.Eventually("the end of a ticket that is not renewed", func() bool { return len(t.snapshot(b.driver, "q").Members) == 0 })
	a.over(held.ticket)
	t.stands(b.driver, "q", nil, nil)
})

// Neither a renewal that does not name a ticket nor an eviction gives it more time, also if the Join of the evicted one
// is repeated.
var _ = rules.Add(rule{Name: "NothingIsProlonged", Exclusive: true, Says: []string{
	"A ticket of this session that is not in known is not extended, and is reported as Stray",
	"An evicted ticket that is held is not renewed any more",
	"One that was joined with Hold keeps its end",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	const inexact = 5 * time.Millisecond // some backends count in milliseconds
	evict := func(tk driver.Ticket) {
		b.ask(tk, driver.Evict)
	}
	left := func(queue string) time.Duration {
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
	r := t.exclusive("again")
	if !a.unanswered(r, b) {
		return
	}
	evict(driver.Ticket{ID: r.ID, Queue: r.Queue})
	time.Sleep(t.TTL / 2)
	var got driver.Ticket
	if len(t.snapshot(b.driver, r.Queue).Members) == 0 { // it was evicted before it was granted everywhere
		_, err := a.Join(t.Ctx, again(r))
		t.Is(err, driver.ErrGone, "Join of a ticket that was evicted while it waited, repeated")
		return
	}
	before := left(r.Queue)
	t.OK(t.known(func() (err error) { got, err = a.Join(t.Ctx, again(r)); return err }), "Join of an evicted ticket, repeated")
	after := left(r.Queue)
	t.FatalIf(after > before+inexact,
		"an evicted ticket had %v left before its Join was repeated, and %v after", before, after)
	end := got.Proof.Add(a.TTL)
	more := end.Sub(a.driver.Now().Add(after))
	for more > inexact { // unless its time is shown in whole seconds, and is longer
		stands, now := len(t.snapshot(b.driver, r.Queue).Members) > 0, a.driver.Now()
		if now >= end.Add(-inexact) {
			break
		}
		t.FatalIf(!stands, "an evicted ticket that is joined again is proven for %v more than it stands", end.Sub(now))
		time.Sleep(inexact)
	}
})
