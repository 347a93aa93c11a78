package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// The life of a ticket. Its state is written in this file only, with the mutex of its queue, and what is found out
// about a ticket under that mutex is acted upon before it is free.
//
//		what          from                  to
//		queued        joining               queued
//		held          joining, queued       held
//		lose          held                  lost; left at once if no function works under it, or the backend does not have it
//		claim         all before left       left
//		expiring      left                  expiring
//
//	  - The goroutine that obtains the ticket brings it to held.
//	  - Leases are not ended only while it is held. A lost ticket stays lost until all of them have been released: their
//	    holders may still be at work.
//	  - One caller takes the ticket. It alone gives it back to the backend, or forgets it.
type ticketState uint8

const (
	ticketJoining ticketState = iota // nobody knows yet whether the backend has it
	ticketQueued
	ticketHeld
	ticketLost     // the backend may have it until end
	ticketLeft     // it has been claimed
	ticketExpiring // it was given back in vain: the backend may have it until end
)

// queued notes that the backend has the ticket in its queue.
func (t *ticket) queued(tk driver.Ticket) {
	if t.state == ticketJoining {
		t.state, t.tk = ticketQueued, tk
	}
}

// held notes the grant. It reports false if the ticket has been claimed.
func (t *ticket) held(tk driver.Ticket) bool {
	if t.state > ticketQueued {
		return false
	}
	t.state, t.tk = ticketHeld, tk
	return true
}

// lose ends all leases; stands says that the backend still has the ticket. If nobody works
// under it any more, it is claimed at once.
func (t *ticket) loseLocked(why error, stands bool) {
	if t.state != ticketHeld {
		return
	}
	t.state = ticketLost
	t.noteRenewal()
	leases, q := t.leases, t.q
	t.endLeases(fmt.Errorf("%w: %w", ErrLost, Public(why)))
	unused, clean := t.live == 0, !t.unseen(ticketHeld)
	if unused || !stands {
		t.claim()
	}
	q.afterUnlock(func() {
		q.mu.Lock()
		if t.local != nil {
			t.local.ticketLost(t)
		}
		switch {
		case !stands:
			q.forget(t)
		case unused:
			t.leaveLater(t.end, clean)
		case t.req.Hold > 0 && errors.Is(why, ErrEvicted):
			t.e.Background(t.cutShort)
		}
		q.unlock()
		t.e.tell(leases, func(by Holder, at time.Time) { by.Lost(at, why) })
	})
}

// checked calls f with the mutex, after the deadline was checked.
func (t *ticket) checked(f func()) {
	now := t.e.d.Now()
	t.q.mu.Lock()
	defer t.q.unlock()
	t.checkDeadline(now)
	f()
}

// claim reports whether the caller is now the one who gives the ticket back or forgets it.
func (t *ticket) claim() bool {
	if t.state >= ticketLeft {
		return false
	}
	t.state = ticketLeft
	return true
}

// expiring keeps a ticket that was claimed, and could not be given back, until it ends: before
// that it is no stray.
func (t *ticket) expiring() { t.state = ticketExpiring }

// checkDeadline loses the ticket if its deadline has passed.
func (t *ticket) checkDeadline(now driver.Instant) {
	if t.state == ticketHeld && now >= t.deadline {
		t.loseLocked(t.overdue(now), true)
	}
}

// endLeases ends all leases with err.
func (t *ticket) endLeases(err error) {
	lost := errors.Is(err, ErrLost)
	for _, l := range t.leases {
		if lost && l.works > 0 {
			l.overrun(err)
		}
		l.end(err)
	}
	t.leases = nil
}

// unseen reports whether the ticket may bring news of a holder that died, which nobody has
// seen: then it goes back as if its own holder had died. was is the state in which it was
// claimed.
func (t *ticket) unseen(was ticketState) bool {
	if was < ticketHeld { // it may have been granted, and nobody knows
		return t.req.ReportDeath
	}
	return t.grants == 0 && t.tk.Inherited
}
