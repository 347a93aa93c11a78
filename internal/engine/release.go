package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

var (
	errClosedBefore = fmt.Errorf("%w: %w", ErrLost, ErrClosed) // others may have held the lock since
	errByAnother    = fmt.Errorf("%w: another lease of it was released", ErrLost)
)

func (l *Lease) releaseOnce(clean bool) error {
	t, g := l.t, l.g
	now := t.e.d.Now()
	t.q.mu.Lock()
	t.checkDeadline(now)
	ended := l.why // before
	l.given = true
	l.endOverrun()
	if ended == nil {
		l.end(ErrReleased)
		t.remove(l)
	}
	g.leases--
	g.unclean = g.unclean || !clean
	over, clean := g.leases == 0, !g.unclean
	var p parting
	if over {
		t.live--
		p = t.parting(clean, now)
		if p.claimed && t.req.Hold > 0 { // adopted: what one releases, all lose
			t.e.tell(t.leases, func(by Holder, at time.Time) { by.Lost(at, errByAnother) })
			t.endLeases(errByAnother)
		}
	}
	var left <-chan struct{}
	limit := t.releaseLimit()
	if ended != nil && p.claimed {
		left = t.leaveLater(t.end, false) // what was done under it may be half done
	}
	t.q.unlock()
	if ended != nil {
		if left != nil { // a program may end after this, and a ticket that was evicted would keep others out until its end
			t.e.Await(left, limit.Sub(now))
		}
		if ended == ErrReleased {
			return errClosedBefore
		}
		return ended
	}
	if over {
		l.by.Released(now.Sub(g.since), nil)
	}
	switch {
	case p.next != nil:
		p.next.ready <- struct{}{}
	case p.rests:
		p.local.keepIdle(t, now)
	case p.claimed && p.local != nil:
		return l.lostAfterAll(p.local.leave(t, clean))
	case p.claimed:
		return l.lostAfterAll(t.leave(clean))
	}
	return nil
}

// lostAfterAll makes err the end of the lease if it was lost while it was given back.
func (l *Lease) lostAfterAll(err error) error {
	if errors.Is(err, ErrLost) {
		l.locked(func() { l.why = err })
	}
	return err
}

// parting is what is left to do when a grant is over and its contexts have ended.
type parting struct {
	next    *waiter     // the ticket was handed on to this one
	rests   bool        // the local queue keeps the ticket
	claimed bool        // the ticket goes back
	local   *localQueue // that it served; nil if it served none
}

// parting decides what becomes of the ticket when a grant is over.
func (t *ticket) parting(clean bool, now driver.Instant) (p parting) {
	switch n := t.local; {
	case t.live > 0 && !(t.req.Hold > 0 && t.state == ticketHeld):
	case t.state == ticketHeld && n != nil && n.t == t:
		return n.handOver(clean, now)
	case t.state == ticketHeld, t.state == ticketLost:
		p.claimed = t.claim()
	}
	return p
}

// remove takes a lease off the list.
func (t *ticket) remove(l *Lease) {
	last := t.leases[len(t.leases)-1]
	t.leases[l.at] = last
	last.at = l.at
	t.leases[len(t.leases)-1] = nil
	t.leases = t.leases[:len(t.leases)-1]
}
