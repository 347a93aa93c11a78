package interlock

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// Adopt makes a lease of one that was acquired with [Hold], here or in another
// process, given its [Lease.ID], so that it can be extended or released.
// ErrLost: it has ended. The first lease is not told when another process
// releases or extends its own; its deadline stays what it knows.
func (c *Client) Adopt(ctx context.Context, name, id string) (*Lease, error) {
	v := c.named(name)
	lease, err := c.adopt(ctx, v, ticketID(id))
	return lease, v.fail("adopt", err)
}

func (c *Client) adopt(ctx context.Context, v cell, id string) (*Lease, error) {
	var q driver.Queue
	err := v.retry(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := c.callContext(ctx)
		defer cancel()
		q, err = c.d.Follow(ctx, v.key, "")
		return err
	})
	if err != nil {
		return nil, err
	}
	if t := c.ticket(id); t != nil && t.req.Hold > 0 {
		return t.grant(ctx, c.lock(q.Kind, v.name, t.req.Units, t.req.Capacity, nil))
	}
	for _, m := range q.Members {
		if m.ID != id {
			continue
		}
		if !m.Held || !m.Fixed {
			return nil, fmt.Errorf("%s is no lease of Hold", id)
		}
		sess, err := c.session(ctx)
		if err != nil {
			return nil, err
		}
		lock := c.lock(q.Kind, v.name, m.Units, q.Capacity, nil)
		return lock.adopted(ctx, sess, m, q.Read)
	}
	return nil, ErrLost
}

// adopted makes a ticket of this client from what inspection says of it.
func (l *Lock) adopted(ctx context.Context, sess *session, m driver.Member, read driver.Instant) (*Lease, error) {
	t := l.newTicket(nil, false)
	t.req.ID, t.req.Hold, t.sess, t.sent = m.ID, m.Left, sess, true
	if m.Left <= 0 {
		return nil, ErrLost
	}
	tk := driver.Ticket{ID: m.ID, Queue: l.queue, Held: true, Token: m.Token, Proof: read}
	if ok, err := t.hold(tk); err != nil {
		return nil, err
	} else if !ok {
		return nil, ErrLost
	}
	l.c.mu.Lock()
	l.c.tickets[m.ID] = t
	l.c.mu.Unlock()
	return t.grant(ctx, l)
}
