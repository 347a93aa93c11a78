package interlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// Adopt makes a lease of one that was acquired with [ExpiresAfter], here or in another
// process, given its [Lease.ID], so that it can be extended or released.
// ErrLost: it has ended. ErrInvalid: that is no ID. When one of its leases is
// released, the others are lost: those of other processes with their next
// heartbeat. What one process changes with Extend, others do not know: their
// leases end at the time that they know of, so only one should extend.
func (c *Client) Adopt(ctx context.Context, name, id string) (*Lease, error) {
	v := c.named(name)
	if err := driver.CheckID(ticketID(id)); err != nil {
		return nil, v.fail("adopt", driver.Invalid(fmt.Errorf("%q is not the ID of a lease", id)))
	}
	lease, err := c.adopt(ctx, v, ticketID(id))
	if err != nil {
		return nil, v.fail("adopt", err)
	}
	return &lease.lease, nil
}

func (c *Client) adopt(ctx context.Context, v cell, id string) (*single, error) {
	if t := c.ticket(v.key, id); t != nil && t.req.Hold > 0 {
		return t.adopt(ctx, c.lock(t.req.Kind, v.name, t.req.Units, t.req.Capacity, nil))
	}
	q, err := c.look(ctx, v.name)
	if err != nil {
		return nil, err
	}
	for _, m := range q.Members {
		if m.ID == id && m.Held && m.Fixed {
			lease, err := c.lock(q.Kind, v.name, m.Units, q.Capacity, nil).adoptMember(ctx, m, q.Read)
			if errors.Is(err, errTaken) { // somebody adopts it just now
				return c.adopt(ctx, v, id)
			}
			return lease, err
		}
		if m.ID == id {
			return nil, driver.Invalid(fmt.Errorf("%s is not a lease of ExpiresAfter", id))
		}
	}
	return nil, ErrLost
}

// adoptMember makes a ticket of this client from what inspection says of it.
func (l *Lock) adoptMember(ctx context.Context, m driver.Member, read driver.Instant) (*single, error) {
	if m.Left <= 0 {
		return nil, ErrLost
	}
	lock := *l
	lock.cfg.hold = m.Left
	queue := l.c.queue(l.queue)
	defer queue.leave()
	t := lock.ticketAs(queue, m.ID)
	t.live = 1 // until there is a lease: a ticket that others work under is not given back
	if err := t.enroll(ctx); err != nil {
		return nil, err
	}
	err := t.hold(driver.Ticket{ID: m.ID, Queue: l.queue, Held: true, Token: m.Token, Proof: read})
	if errors.Is(err, errLate) || isGone(err) {
		err = ErrLost
	}
	if err != nil {
		t.drop()
		return nil, err
	}
	lease, err := t.adopt(ctx, l)
	t.q.mu.Lock()
	t.live--
	t.q.unlock()
	return lease, err
}

// adopt makes another lease of a ticket with a fixed end.
func (t *ticket) adopt(ctx context.Context, lock *Lock) (*single, error) {
	now := t.c.d.Now()
	t.q.mu.Lock()
	defer t.q.unlock()
	t.judge(now)
	switch {
	case t.c.closing.Load():
		return nil, ErrClosed
	case t.state != ticketHeld:
		return nil, ErrLost
	}
	l := &single{own: grant{since: now}}
	l.g = &l.own
	t.live++
	t.attach(l, ctx, lock)
	t.q.then(l.by.acquired)
	return l, nil
}
