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
	for {
		t, err := q.obtain(ctx, l, nil, nil, try)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			t.abandon()
			if ctx.Err() != nil || errors.Is(err, ErrDeadlock) {
				t.awaitAbandoned()
			}
			return err
		}
		held := false
		t.checked(func() {
			if held = t.state == ticketHeld && !q.e.closing.Load(); held { // else the process was stopped just then
				t.grant(l, q.e.d.Now())
			}
		})
		if held {
			return nil
		}
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
