package engine

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

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
