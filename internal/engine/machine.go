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

// loseLocked ends all leases; stands says that the backend still has the ticket. If nobody works
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

// extend moves the deadline of a ticket that was renewed.
func (t *ticket) extend(proof driver.Instant) {
	now := t.e.d.Now()
	t.q.mu.Lock()
	t.checkDeadline(now)
	if t.state == ticketHeld && !t.fixed() {
		if end := proof.Add(t.sess.ttl); end > t.end {
			t.end = end
			t.noteRenewal()
		}
		t.deadline = t.most(t.end.Add(-t.sess.margin))
		t.doubt, t.heard = nil, now
	}
	t.leaveIfIdle(t.sess.ttl)
	t.q.unlock()
}

// doubted notes that the ticket may be lost soon, unless an answer has come since.
func (t *ticket) doubted(err error, since driver.Instant) {
	t.q.mu.Lock()
	var leases []*Lease
	if t.state == ticketHeld && !t.fixed() && t.heard <= since {
		if t.doubt == nil {
			leases = append(leases, t.leases...)
		}
		t.doubt = err
	}
	heard := t.heard
	t.q.unlock()
	if len(leases) > 0 {
		ago := about(t.e.d.Now().Sub(heard))
		why := fmt.Errorf("the last answer came %v ago; %w", ago, Public(err))
		t.e.tell(leases, func(by Holder, at time.Time) { by.InDoubt(at, why) })
	}
}

// vanished is why the backend does not have the ticket any more.
func (t *ticket) vanished() error {
	if t.req.Hold > 0 {
		return errEnded
	}
	return errForgotten
}

// lose loses the ticket. If it still stands at the backend, it passes on when every lease has been released, or its
// time has run out.
func (t *ticket) lose(why error, stands bool) {
	t.q.mu.Lock()
	defer t.q.unlock()
	t.loseLocked(why, stands)
}

// Lose loses the lease, as one that was evicted.
func (l *Lease) Lose(why error) { l.t.lose(why, true) }

// tell tells holders of what no caller waits for. It does so in the background: a
// log that blocks must not delay the next loss.
func (e *Engine) tell(leases []*Lease, news func(by Holder, at time.Time)) {
	if !e.cfg.Observed || len(leases) == 0 {
		return
	}
	now := time.Now()
	e.Background(func() {
		for _, l := range oneEach(leases) {
			news(l.by, now)
		}
	})
}

// oneEach leaves one lease of each grant: leases that are nested in it have no news of their own.
func oneEach(leases []*Lease) (of []*Lease) {
	seen := map[*grant]bool{}
	for _, l := range leases {
		if !seen[l.g] {
			seen[l.g] = true
			of = append(of, l)
		}
	}
	return of
}

// want notes that another ticket waits behind this one, and gives it back if it
// is idle.
func (t *ticket) want() {
	t.q.mu.Lock()
	defer t.q.unlock()
	t.wanted = true
	t.leaveIfIdle(0)
}

// leaveIfIdle gives the ticket back if it has been idle for so long.
func (t *ticket) leaveIfIdle(idle time.Duration) {
	if n := t.local; n != nil && n.key.sticky {
		n.leaveIfIdle(t, idle)
	}
}

// revoke passes a request on to the leases. The ticket is not handed on inside
// the process any more.
func (t *ticket) revoke() {
	t.q.mu.Lock()
	defer t.q.unlock()
	t.revoked = true
	select {
	case t.asked <- struct{}{}:
	default:
	}
	for _, l := range t.leases {
		l.ask()
	}
	t.leaveIfIdle(0)
}
