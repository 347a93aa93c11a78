package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A renewal that comes too late revives nothing: others may have acted upon the end, or
// have seen that there is nobody.
var _ = rules.Add(rule{Name: "WhatHasEndedIsNotRenewed", Exclusive: true, Says: []string{
	"A ticket that has not been renewed for the session's TTL leaves by itself, held or waiting.",
	"Once a session is over every method returns ErrSession.",
}}, func(t *trial) {
	a, b := t.mortal(), t.client()
	held := a.lease(a.hold(t.exclusive("q")))
	t.Eventually("the end of a ticket that is not renewed", func() bool { return len(t.snapshot(b.driver, "q").Members) == 0 })
	var answer []driver.Renewed
	err := t.known(func() (err error) { answer, err = a.Renew(t.Ctx, []driver.Ticket{held.ticket}); return err })
	if err != nil && !errors.Is(err, driver.ErrSession) {
		t.Fatalf("Renew of a ticket that has ended: %v", err)
	}
	for _, r := range answer {
		if r.State != driver.Gone {
			t.Fatalf("Renew of a ticket that has ended: %+v; it must be Gone", r)
		}
	}
	t.stands(b.driver, "q", nil, nil)

	// Nor does one that names a ticket again, whose session stands.
	c := t.mortal()
	forgotten := c.lease(c.hold(t.exclusive("forgotten")))
	time.Sleep(t.TTL / 2)
	if _, err := c.Renew(t.Ctx, nil); err != nil {
		t.inTime(c.driver, forgotten.end())
		t.Fatalf("Renew: %v", err)
	}
	t.Eventually("the end of a ticket that is not named", func() bool { return len(t.snapshot(b.driver, "forgotten").Members) == 0 })
	answer, err = c.Renew(t.Ctx, []driver.Ticket{forgotten.ticket})
	if err != nil && !errors.Is(err, driver.ErrSession) {
		t.Fatalf("Renew of a ticket that was not named until it had ended: %v", err)
	}
	for _, r := range answer {
		if r.State != driver.Gone {
			t.Fatalf("Renew of a ticket that was not named until it had ended: %+v; it must be Gone", r)
		}
	}
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
		if len(m) == 0 {
			t.Fatalf("the ticket in %q does not stand", queue)
		}
		return m[0].Left
	}
	for _, how := range []struct {
		queue string
		hold  time.Duration
		do    func(driver.Ticket)
	}{
		{"not named", 0, func(driver.Ticket) { a.renew() }},
		{"evicted", 0, func(tk driver.Ticket) { evict(tk); a.renew(tk) }},
		{"evicted, with a fixed end", limit, func(tk driver.Ticket) { evict(tk); a.renew(tk) }},
	} {
		if how.hold > 0 && !t.fixes() {
			continue
		}
		r := t.exclusive(how.queue)
		r.Hold = how.hold
		tk := a.hold(r)
		time.Sleep(t.TTL / 2) // a part of its time is over
		before := left(how.queue)
		how.do(tk)
		if after := left(how.queue); after > before+inexact {
			t.Fatalf("a ticket that was %s had %v left before, and %v after", how.queue, before, after)
		}
		a.leave(tk)
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
	if after > before+inexact {
		t.Fatalf("an evicted ticket had %v left before its Join was repeated, and %v after", before, after)
	}
	if more := got.Proof.Add(a.TTL).Sub(a.driver.Now().Add(after)); more > inexact {
		t.Fatalf("an evicted ticket that is joined again is proven for %v more than it stands", more)
	}
})
