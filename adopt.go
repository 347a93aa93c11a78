package interlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/engine"
)

// Adopt makes a lease of one that was acquired with [ExpiresAfter], here or in another
// process, given its [Lease.ID], so that it can be extended or released. It has the
// token that is in the ID. An ID of a [Member] has none: then over a quorum, whose
// members give different tokens, it may have another one than the holder was told.
// ErrLost: it has ended. ErrInvalid: that is no ID. When one of its leases is
// released, the others are lost: those of other processes with their next
// heartbeat. What one process changes with Extend, others do not know: their
// leases end at the time that they know of, so only one should extend.
func (c *Client) Adopt(ctx context.Context, name, id string) (*Lease, error) {
	v := c.named(name)
	if err := driver.CheckID(engine.TicketID(id)); err != nil {
		return nil, v.fail("adopt", driver.Invalid(fmt.Errorf("%q is not the ID of a lease", id)))
	}
	lease, err := c.adopt(ctx, v, engine.TicketID(id), engine.TicketToken(id))
	if err != nil {
		return nil, v.fail("adopt", err)
	}
	lease.span.acquired()
	return lease, nil
}

func (c *Client) adopt(ctx context.Context, v cell, id string, token uint64) (*Lease, error) {
	if r, known := c.e.Fixed(v.key, id); known {
		lease := c.lock(r.Kind, v.name, r.Units, r.Capacity, nil).newLease(ctx, true)
		return lease, c.e.Adopt(&lease.held, id)
	}
	q, err := c.look(ctx, v.name)
	if err != nil {
		return nil, err
	}
	for _, m := range q.Members {
		if m.ID == id && m.Held && m.Fixed {
			lease := c.lock(q.Kind, v.name, m.Units, q.Capacity, nil).newLease(ctx, true)
			m.Token = cmp.Or(token, m.Token)
			err := c.e.AdoptMember(ctx, &lease.held, m, q.Read)
			if errors.Is(err, engine.ErrTaken) { // somebody adopts it just now
				return c.adopt(ctx, v, id, token)
			}
			return lease, err
		}
		if m.ID == id {
			return nil, driver.Invalid(fmt.Errorf("%s is not a lease of ExpiresAfter", id))
		}
	}
	return nil, ErrLost
}
