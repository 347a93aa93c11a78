package interlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// extend moves the deadline of a ticket that was renewed.
func (t *ticket) extend(proof driver.Instant) {
	now := t.c.d.Now()
	t.mu.Lock()
	after := t.judge(now)
	if t.state == ticketHeld && !t.fixed() {
		t.end = max(t.end, proof.Add(t.sess.ttl))
		t.deadline = t.end.Add(-t.sess.margin)
		t.doubt = false
	}
	t.mu.Unlock()
	after()
}

// doubted notes that the ticket may be lost soon.
func (t *ticket) doubted(err error) {
	t.mu.Lock()
	var leases []*Lease
	if t.state == ticketHeld && !t.fixed() && !t.doubt {
		t.doubt = true
		leases = append(leases, t.leases...)
	}
	t.mu.Unlock()
	t.c.tell(EventInDoubt, leases, err)
}

// judge loses the ticket if its deadline has passed. t.mu is held; the caller
// calls the result after unlocking.
func (t *ticket) judge(now driver.Instant) (after func()) {
	if t.state != ticketHeld || now < t.deadline {
		return nothing
	}
	return t.lose(errors.New("it was not renewed in time"))
}

func nothing() {}

// expire is judge for the reaper.
func (t *ticket) expire() {
	now := t.c.d.Now()
	t.mu.Lock()
	after := t.judge(now)
	t.mu.Unlock()
	after()
}

// gone loses a ticket that the backend does not have any more.
func (t *ticket) gone(why error) {
	t.mu.Lock()
	if t.state != ticketHeld {
		t.mu.Unlock()
		return
	}
	after := t.lose(why)
	t.state = ticketLeft
	t.mu.Unlock()
	t.unregister()
	after()
}

// evict loses a ticket that the backend still has: it passes on when every
// lease has been released, or its time has run out.
func (t *ticket) evict() {
	t.mu.Lock()
	after := nothing
	if t.state == ticketHeld {
		after = t.lose(ErrEvicted)
	}
	t.mu.Unlock()
	after()
}

// lose ends all leases. t.mu is held; the caller calls the result after
// unlocking. A ticket that nobody works under is given back at once.
func (t *ticket) lose(why error) (after func()) {
	t.state = ticketLost
	leases := t.leases
	unused := len(leases) == 0 && t.live == 0
	t.leases, t.live, t.unacked = nil, 0, len(leases)
	lost := fmt.Errorf("%w: %w", ErrLost, why)
	ends := make([]func(), 0, len(leases))
	for _, l := range leases {
		ends = append(ends, l.end(lost))
	}
	n := t.line
	return func() {
		for _, end := range ends {
			end()
		}
		if n != nil {
			n.lost(t)
		}
		if unused {
			t.acknowledge()
		}
		t.c.tell(EventLost, leases, why)
	}
}

// tell emits events that no caller waits for. It does so in the background: a
// log that blocks must not delay the next loss.
func (c *Client) tell(kind EventKind, leases []*Lease, err error) {
	if !c.cfg.observed() || len(leases) == 0 {
		return
	}
	now := time.Now()
	c.background(func() {
		for _, l := range leases {
			c.emit(l.ctx, Event{Kind: kind, Name: l.t.name, Token: l.Token(), Time: now, Err: err})
		}
	})
}

// want notes that another ticket waits behind this one, and gives it back if it
// is idle.
func (t *ticket) want() {
	t.mu.Lock()
	t.wanted = true
	t.mu.Unlock()
	t.recall(0)
}

// recall gives the ticket back if it has been idle for so long.
func (t *ticket) recall(idle time.Duration) {
	if n := t.inLine(); n != nil && n.sticky {
		n.recall(t, idle)
	}
}

func (t *ticket) inLine() *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.line
}

// revoke passes a request on to the leases. The ticket is not handed on inside
// the process any more.
func (t *ticket) revoke() {
	t.mu.Lock()
	t.revoked = true
	for _, l := range t.leases {
		l.signalRevoked()
	}
	t.mu.Unlock()
	t.recall(0)
}
