package drivertest

import (
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A renewal that comes too late revives nothing: others may have acted upon the end, or
// have seen that there is nobody.
var whatHasEndedIsNotRenewed = rule{
	name: "WhatHasEndedIsNotRenewed",
	says: []string{
		"A ticket that has not been renewed for the session's TTL leaves by itself, held or waiting.",
		"Once a session is over every method returns ErrSession.",
	},
	exclusive: true,
	check: func(t *trial) {
		a, b := t.mortal(), t.client()
		held := a.lease(a.hold(t.exclusive("q")))
		t.eventually("the end of a ticket that is not renewed", func() bool { return len(t.snapshot(b.driver, "q").Members) == 0 })
		var answer []driver.Renewed
		err := t.known(func() (err error) { answer, err = a.Renew(t.ctx, []driver.Ticket{held.ticket}); return err })
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
		if _, err := c.Renew(t.ctx, nil); err != nil {
			t.inTime(c.driver, forgotten.end())
			t.Fatalf("Renew: %v", err)
		}
		t.eventually("the end of a ticket that is not named", func() bool { return len(t.snapshot(b.driver, "forgotten").Members) == 0 })
		answer, err = c.Renew(t.ctx, []driver.Ticket{forgotten.ticket})
		if err != nil && !errors.Is(err, driver.ErrSession) {
			t.Fatalf("Renew of a ticket that was not named until it had ended: %v", err)
		}
		for _, r := range answer {
			if r.State != driver.Gone {
				t.Fatalf("Renew of a ticket that was not named until it had ended: %+v; it must be Gone", r)
			}
		}
	},
}

// Neither a renewal that does not name a ticket nor an eviction gives it more time.
var nothingIsProlonged = rule{
	name: "NothingIsProlonged",
	says: []string{
		"A ticket of this session that is not in known is not extended, and is reported as Stray",
		"An evicted ticket that is held is not renewed any more",
	},
	exclusive: true,
	check: func(t *trial) {
		a, b := t.client(), t.client()
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
			do    func(driver.Ticket)
		}{
			{"not named", func(driver.Ticket) { a.renew() }},
			{"evicted", func(tk driver.Ticket) {
				if err := b.driver.Ask(t.ctx, tk.Queue, tk.ID, driver.Evict); err != nil {
					t.Fatalf("Ask: %v", err)
				}
				a.renew(tk)
			}},
		} {
			tk := a.hold(t.exclusive(how.queue))
			time.Sleep(t.TTL / 2) // a part of its time is over
			before := left(how.queue)
			how.do(tk)
			if after := left(how.queue); after > before {
				t.Fatalf("a ticket that was %s had %v left before, and %v after", how.queue, before, after)
			}
			a.leave(tk)
		}
	},
}
