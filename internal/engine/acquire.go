package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Acquire waits until the lease is held; with try it makes one try. handed says that another goroutine has handed it
// on.
func (e *Engine) Acquire(ctx context.Context, l *Lease, try bool) (handed bool, err error) {
	if try {
		call := e.Call(ctx)
		defer call.Release()
		ctx = call
	}
	q := e.queue(l.r.Queue)
	defer q.leave()
	if !l.r.shares() {
		return false, q.acquireAlone(ctx, l, try)
	}
	return q.acquire(ctx, l, try)
}

// acquireAlone acquires with a ticket of its own.
func (q *queue) acquireAlone(ctx context.Context, l *Lease, try bool) error {
	return q.acquireWith(ctx, l, nil, nil, try)
}

// acquireWith obtains a ticket, beginning with t unless that is nil, and makes l the lease of a turn of it. The ticket
// goes on to serve the local queue n, unless that is nil.
func (q *queue) acquireWith(ctx context.Context, l *Lease, n *localQueue, t *ticket, try bool) error {
	for {
		var err error
		t, err = q.obtain(ctx, l, n, t, try)
		cancelled := ctx.Err() != nil
		if err == nil && cancelled {
			err = context.Cause(ctx)
		}
		gives := cancelled || errors.Is(err, ErrDeadlock)
		now := q.e.d.Now()
		q.mu.Lock()
		switch {
		case err != nil && n != nil:
			n.stopFetching(t, gives)
		case err != nil:
			t.abandonLocked()
		default:
			if t.checkDeadline(now); t.state != ticketHeld || q.e.closing.Load() { // it was lost just then
				q.unlock()
				t = nil
				continue
			}
			t.grant(l, now)
			if n != nil {
				n.serveFrom(t)
			}
		}
		q.unlock()
		if gives {
			t.awaitAbandoned()
		}
		return err
	}
}

// Leases are the live ones of a queue, in the order in which they were granted.
func (e *Engine) Leases(queue string) (live []*Lease) {
	q := e.queue(queue)
	defer q.leave()
	q.each(func(t *ticket) {
		t.checkDeadline(e.d.Now())
		live = append(live, t.leases...)
	})
	slices.SortFunc(live, func(a, b *Lease) int {
		return cmp.Or(cmp.Compare(a.g.since, b.g.since), cmp.Compare(a.Token(), b.Token()))
	})
	return live
}

// waits tells of a wait; by may be nil.
func waits(by Holder) {
	if by != nil {
		by.Waits()
	}
}

// TicketID returns the ticket's part of the ID of a lease or of a ticket.
func TicketID(id string) string {
	ticket, _, _ := strings.Cut(id, ".")
	return ticket
}

// TicketToken returns the ticket's part of the token in the ID of a lease. 0: there is none, as in the ID of a ticket.
func TicketToken(id string) uint64 {
	_, token, _ := strings.Cut(id, ".")
	n, err := strconv.ParseUint(token, 10, 63)
	if err != nil {
		return 0
	}
	return n >> TokenBits
}
