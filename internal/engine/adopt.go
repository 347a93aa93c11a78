package engine

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
)

// Fixed finds a ticket of this client with a fixed end.
func (e *Engine) Fixed(queue, id string) (r driver.Request, known bool) {
	if t := e.ticket(queue, id); t != nil && t.req.Hold > 0 {
		return t.req, true
	}
	return r, false
}

// Adopt makes l another lease of a ticket of this client with a fixed end.
func (e *Engine) Adopt(l *Lease, id string) error {
	if t := e.ticket(l.r.Queue, id); t != nil {
		return t.adopt(l)
	}
	return ErrLost
}

// AdoptMember makes a ticket of this client from what inspection says of it, and l its lease. ErrTaken: the client has
// it by now.
func (e *Engine) AdoptMember(ctx context.Context, l *Lease, m driver.Member, read driver.Instant) error {
	if m.Left <= 0 {
		return ErrLost
	}
	r := *l.r
	r.Hold = m.Left
	q := e.queue(r.Queue)
	defer q.leave()
	t := q.ticketAs(&r, m.ID)
	t.live = 1 // until there is a lease: a ticket that others work under is not given back
	if err := t.enroll(ctx, nil); err != nil {
		return err
	}
	_, err := t.hold(driver.Ticket{ID: m.ID, Queue: r.Queue, Held: true, Token: m.Token, Proof: read})
	if errors.Is(err, errLate) || IsGone(err) {
		err = ErrLost
	}
	if err != nil {
		t.drop()
		return err
	}
	err = t.adopt(l)
	t.q.mu.Lock()
	t.live--
	t.q.unlock()
	return err
}

func (t *ticket) adopt(l *Lease) error {
	now := t.e.d.Now()
	t.q.mu.Lock()
	defer t.q.unlock()
	t.checkDeadline(now)
	switch {
	case t.e.closing.Load():
		return ErrClosed
	case t.state != ticketHeld:
		return ErrLost
	}
	l.own = grant{since: now}
	l.g = &l.own
	t.live++
	t.attach(l)
	return nil
}
