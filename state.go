package interlock

import (
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// The life of a ticket. Its state is written in this file only, with ticket.mu held, and
// whoever finds something out about a ticket under that mutex acts upon it before letting
// go:
//
//		joining → queued → held → lost → left
//
//	  - The goroutine that obtains the ticket brings it to held.
//	  - A loss ends all leases. The ticket stays lost until they have been released: their
//	    holders may still be at work.
//	  - Whoever takes the ticket, and nobody else, gives it back to the backend or forgets
//	    it. Any state but the last can come before that.
type ticketState uint8

const (
	ticketJoining ticketState = iota // nobody knows yet whether the backend has it
	ticketQueued
	ticketHeld
	ticketLost  // the backend may have it until end
	ticketLeft  // it has been taken
	ticketSpent // it was given back in vain: the backend may have it until end
)

// queued notes that the backend has the ticket in its queue. t.mu is held.
func (t *ticket) queued(tk driver.Ticket) { t.state, t.tk = ticketQueued, tk }

// held notes the grant. It reports false if the ticket has been taken. t.mu is held.
func (t *ticket) held(tk driver.Ticket) bool {
	if t.state > ticketQueued {
		return false
	}
	t.state, t.tk = ticketHeld, tk
	return true
}

// lose ends all leases; stands says that the backend still has the ticket. If nobody works
// under it any more, it is taken at once. t.mu is held; the caller calls the result after
// unlocking.
func (t *ticket) lose(why error, stands bool) (after func()) {
	if t.state != ticketHeld {
		return nothing
	}
	t.state = ticketLost
	leases := t.leases
	unbind := t.endLeases(fmt.Errorf("%w: %w", ErrLost, public(why)))
	unused, clean := t.live == 0, !t.unseen(ticketHeld)
	if unused || !stands {
		t.take()
	}
	n := t.line
	return func() {
		unbind()
		if n != nil {
			n.lost(t)
		}
		switch {
		case !stands:
			t.unregister()
		case unused:
			t.leaveLost(clean)
		}
		t.c.tell(EventLost, leases, why)
	}
}

// take reports whether the caller is now the one who gives the ticket back or forgets it.
// t.mu is held.
func (t *ticket) take() bool {
	if t.state >= ticketLeft {
		return false
	}
	t.state = ticketLeft
	return true
}

// spend keeps a ticket that was taken, and could not be given back, until it ends: before
// that it is no stray. t.mu is held.
func (t *ticket) spend() { t.state = ticketSpent }

// judge loses the ticket if its deadline has passed. t.mu is held; the caller
// calls the result after unlocking.
func (t *ticket) judge(now driver.Instant) (after func()) {
	if t.state != ticketHeld || now < t.deadline {
		return nothing
	}
	return t.lose(t.overdue(now), true)
}

func nothing() {}

// endLeases makes err the fate of all leases. t.mu is held; the caller calls the result,
// which ends the bound contexts, after unlocking.
func (t *ticket) endLeases(err error) (unbind func()) {
	if len(t.leases) == 0 {
		return nothing
	}
	ends := make([]func(), 0, len(t.leases))
	lost := errors.Is(err, ErrLost)
	for _, l := range t.leases {
		if lost && l.works > 0 {
			l.overrun(err)
		}
		ends = append(ends, l.end(err))
	}
	t.leases = nil
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// unseen reports whether the ticket may bring news of a holder that died, which nobody has
// seen: then it goes back as if its own holder had died. was is the state in which it was
// taken. t.mu is held.
func (t *ticket) unseen(was ticketState) bool {
	if was < ticketHeld { // it may have been granted, and nobody knows
		return t.req.ReportDeath
	}
	return t.grants == 0 && t.tk.Inherited
}
