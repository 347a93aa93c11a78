package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

const expires = "A ticket that has not been renewed for the session's TTL leaves by itself, held or waiting."

var expiryOfAHeldTicket = rule{
	name:      "ExpiryOfAHeldTicket",
	says:      []string{expires},
	exclusive: true,
	check: func(t *T) {
		a, b, c := t.mortal(), t.client(), t.client()
		held := a.lease(a.hold(t.exclusive("q")))
		next := b.behind(t.exclusive("q"))
		last := c.wait(t.exclusive("q"))
		next.notBefore(held.end(), "which nobody renewed")
		c.waits(last)
		t.stands(c.driver, "q", []driver.Ticket{next.Ticket}, []driver.Ticket{last})

		// Whoever held it is told so, and cannot take it from the next one.
		if answer, err := a.Renew(t.ctx, []driver.Ticket{held.ticket}); err == nil {
			if len(answer) != 1 || answer[0].State != driver.Gone {
				t.Fatalf("Renew of a ticket that has run out: %+v", answer)
			}
		} else if !errors.Is(err, driver.ErrSession) {
			t.Fatalf("Renew of a ticket that has run out: %v", err)
		}
		if err := a.Leave(t.ctx, held.ticket, true); !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession) {
			t.Fatalf("Leave of a ticket that has run out: %v", err)
		}
		t.stands(c.driver, "q", []driver.Ticket{next.Ticket}, []driver.Ticket{last})
	},
}

var expiryOfAWaitingTicket = rule{
	name: "ExpiryOfAWaitingTicket",
	says: []string{expires},

	exclusive: true, check: func(t *T) {
		a, b, c := t.client(), t.mortal(), t.client()
		held := a.hold(t.exclusive("q"))
		joined := b.driver.Now()
		next := b.wait(t.exclusive("q"))
		if _, err := b.Join(t.ctx, t.fixed("q", 10*limit)); err != nil && b.driver.Now() < joined.Add(b.TTL()) {
			t.Fatalf("Join: %v", err)
		}
		last := c.wait(t.exclusive("q"))
		c.beat(last)
		t.eventually("a waiting ticket runs out", func() bool { return len(t.snapshot(c.driver, "q").Members) == 2 })
		if early := joined.Add(b.TTL()).Sub(b.driver.Now()); early > 0 {
			t.Fatalf("a waiting ticket ran out %v before its TTL", early)
		}
		t.stands(a.driver, "q", []driver.Ticket{held}, []driver.Ticket{last})
		if _, err := b.Await(t.ctx, next); !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession) {
			t.Fatalf("Await of a ticket that has run out: %v", err)
		}
		a.leave(held)
		c.await(last)
	},
}

// Many waiters of a dead session in front hold up nobody for longer than one.
var expiryOfManyInARow = rule{
	name: "ExpiryOfManyInARow",
	says: []string{expires, firstCome},
	check: func(t *T) {
		dead, a := t.mortal(), t.client()
		held := dead.lease(dead.join(t.exclusive("q")))
		for range 50 {
			if _, err := dead.Join(t.ctx, t.exclusive("q")); err != nil && !errors.Is(err, driver.ErrSession) {
				t.Fatalf("Join: %v", err)
			}
		}
		next := a.behind(t.exclusive("q"))
		start := a.driver.Now()
		next.notBefore(held.end(), "which nobody renewed")
		t.Logf("51 tickets of a dead session passed in %v (TTL %v)", a.driver.Now().Sub(start), dead.TTL())
	},
}

var renewExtends = rule{
	name: "RenewExtends",
	says: []string{"A ticket belongs to the session that joined it and stands as long as that session renews it"},
	check: func(t *T) {
		b := t.client()
		t.inTime(func() bool {
			a := t.mortal()
			held := a.lease(a.hold(t.exclusive("q")))
			next := b.behind(t.exclusive("q"))
			ok := held.renewFor(5*a.TTL()/2, nil)
			next.notBefore(held.end(), "which was renewed")
			b.leave(next.Ticket)
			return ok
		})
	},
}

var renewOfAWaitingTicket = rule{
	name: "RenewOfAWaitingTicket",
	says: []string{"A ticket belongs to the session that joined it and stands as long as that session renews it"},
	check: func(t *T) {
		b := t.client()
		front := b.hold(t.exclusive("q"))
		t.inTime(func() bool {
			a := t.mortal()
			now := a.driver.Now()
			tk := a.wait(t.exclusive("q"))
			waiting := &lease{a, tk, now}
			if !waiting.renewFor(5*a.TTL()/2, nil) {
				return false
			}
			b.leave(front)
			if _, err := a.Await(t.ctx, tk); err != nil && a.driver.Now() < waiting.end() {
				t.Fatalf("Await of a ticket that was renewed while it waited: %v", err)
			}
			return true
		})
	},
}

// The proof of a ticket is what its holder counts from; nobody else may hold
// before it plus the TTL, however it was got.
var proof = rule{
	name:   "Proof",
	says:   []string{"Proof is the local time from which the backend guarantees a held ticket for the session's TTL, or for its Hold: no other ticket takes its place before.", "Now reads the steady clock that all proofs of this driver are in: the function [Now], unless the driver lives in simulated time."},
	across: true,
	check: func(t *T) {
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
			if l.proof > now || l.proof < now.Add(-limit) {
				t.Fatalf("the proof %v is not in the time of the driver, where it is %v", l.proof, now)
			}
			entries = append(entries, entry{why, l, b.behind(t.exclusive(l.ticket.Queue))})
		}
		for i := range 4 { // at different parts of a TTL
			part := t.TTL * time.Duration(i) / 4
			queue := func(s string) string { return fmt.Sprintf("%s%d", s, i) }

			a := t.mortal()
			check("from Join", a.lease(a.hold(t.exclusive(queue("join")))))

			t.inTime(func() bool {
				a := t.mortal()
				l := a.lease(a.hold(t.exclusive(queue("renew"))))
				time.Sleep(part)
				if !l.renewFor(1, nil) {
					return false
				}
				check("from Renew", l)
				return true
			})

			t.inTime(func() bool {
				a := t.mortal()
				held := front.hold(t.exclusive(queue("await")))
				joined := a.driver.Now()
				waiting := a.wait(t.exclusive(queue("await")))
				time.Sleep(part)
				front.leave(held)
				got, err := a.Await(t.ctx, waiting)
				if err != nil {
					if a.driver.Now() < joined.Add(a.TTL()) {
						t.Fatalf("Await: %v", err)
					}
					return false
				}
				check("from Await", a.lease(got))
				return true
			})
		}
		for _, e := range entries {
			e.next.notBefore(e.lease.end(), "by its proof "+e.why)
		}
	},
}
