package interlock

import (
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// Release gives the lock up: first the bound contexts end, then the next
// waiter is served. It takes no context: it is repeated until the backend has
// confirmed it or the lease has run out; for a lease of ExpiresAfter, for one TTL at most.
// That of a lease that was evicted takes as long. It returns an error that wraps
// ErrLost if the lock was no longer held, or had run out before the backend
// confirmed it, also if Close has released it before; calling it again returns the same. The parts of a lease of
// [All] are released in the reverse of the order in which they were acquired, those of each client
// beside those of others; the error names those that were lost.
func (l *Lease) Release() error { return l.release(true) }

// abort is Release for work that may be half done: the next holder is told.
func (l *Lease) abort() error { return l.release(false) }

// release gives up what is held. If it is not clean, the next holder is told that work may
// be half done. Called again, it returns the same.
func (l *Lease) release(clean bool) error {
	l.once.Do(func() {
		if l.all != nil {
			l.result = l.fail("release", l.all.releaseOnce(clean))
		} else {
			l.result = l.fail("release", l.part.releaseOnce(clean))
		}
	})
	return l.result
}

var (
	errClosedBefore = fmt.Errorf("%w: %w", ErrLost, ErrClosed) // others may have held the lock since
	errByAnother    = fmt.Errorf("%w: another lease of it was released", ErrLost)
)

func (l *single) releaseOnce(clean bool) error {
	t, g := l.t, l.g
	now := t.c.d.Now()
	n := t.lock()
	after := t.judge(now)
	ended := l.fate.why // before
	l.given = true
	l.endOverrun()
	unbind, others := nothing, nothing
	var lost []*single
	if ended == nil {
		unbind = l.end(ErrReleased)
		t.remove(l)
	}
	g.leases--
	g.unclean = g.unclean || !clean
	over, clean := g.leases == 0, !g.unclean
	var p parting
	if over {
		t.live--
		p = t.parting(n, clean, now)
		if p.taken && t.req.Hold > 0 {
			lost = t.leases // adopted: what one releases, all lose
			others = t.endLeases(errByAnother)
		}
	}
	t.unlock(n)
	after()
	unbind()
	others()
	t.c.tell(EventLost, lost, errByAnother)
	if ended != nil {
		if p.taken {
			t.awaitLeft(t.leaveLost(false)) // what was done under it may be half done
		}
		if ended == ErrReleased {
			return errClosedBefore
		}
		return ended
	}
	if over {
		l.emit(Event{Kind: EventReleased, Took: now.Sub(g.since)})
	}
	switch {
	case p.next != nil:
		p.next.ready <- struct{}{}
	case p.rests:
		n.settle(t, now)
	case p.taken && p.served:
		return l.lostAfterAll(n.giveBack(t, clean))
	case p.taken:
		return l.lostAfterAll(t.leave(clean))
	}
	return nil
}

// lostAfterAll makes err the lease's fate if it was lost while it was given back.
func (l *single) lostAfterAll(err error) error {
	if errors.Is(err, ErrLost) {
		l.t.mu.Lock()
		l.fate.why = err
		l.t.mu.Unlock()
	}
	return err
}

// parting is what is left to do when a grant is over and its contexts have ended.
type parting struct {
	next   *turn // the ticket was handed on to this one
	rests  bool  // the line keeps the ticket
	taken  bool  // the ticket goes back
	served bool  // it was the line's
}

// parting decides what becomes of the ticket when a grant is over. t.mu is held, and n.mu
// if n is not nil.
func (t *ticket) parting(n *line, clean bool, now driver.Instant) (p parting) {
	switch {
	case t.live > 0 && !(t.req.Hold > 0 && t.state == ticketHeld):
	case t.state == ticketHeld && n != nil && n.t == t:
		return n.pass(clean, now)
	case t.state == ticketHeld, t.state == ticketLost:
		p.taken = t.take()
	}
	return p
}

// lock locks the ticket, and before it the line that it serves, if any, which it returns.
func (t *ticket) lock() *line {
	for {
		n := t.inLine()
		if n != nil {
			n.mu.Lock()
		}
		t.mu.Lock()
		if t.line == n {
			return n
		}
		t.unlock(n)
	}
}

func (t *ticket) unlock(n *line) {
	t.mu.Unlock()
	if n != nil {
		n.mu.Unlock()
	}
}

// remove takes a lease off the list. t.mu is held.
func (t *ticket) remove(l *single) {
	last := t.leases[len(t.leases)-1]
	t.leases[l.at] = last
	last.at = l.at
	t.leases[len(t.leases)-1] = nil
	t.leases = t.leases[:len(t.leases)-1]
}
