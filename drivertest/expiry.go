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
	if early := began.Add(b.TTL).Sub(a.driver.Now()); early > 0 {
		t.Fatalf("a waiting ticket ran out %v before its TTL", early)
	}
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
	type entry struct {
		why   string
		lease *lease
		next  *claim
	}
	var entries []entry
	check := func(why string, l *lease) {
		t.Helper()
		now := l.driver.Now()
		t.FatalIf(l.proof > now || l.proof < now.Add(-limit),
			"the proof %v is not in the time of the driver, where it is %v", l.proof, now)
		entries = append(entries, entry{why, l, b.behind(t.exclusive(l.ticket.Queue))})
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
	for _, e := range entries {
		e.next.notBefore(e.lease.end(), "by its proof "+e.why)
	}
})
