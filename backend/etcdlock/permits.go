package etcdlock

import (
	"context"
	"slices"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// number is a number of permits that was set for a queue. It stands in the key of the floor, which is read
// with the line whatever the kind of a ticket is: so number and line are of one revision, and who wants a
// mutex sees the number, too.
//
// Who is held stands in front of all others, also when the number has been lowered. So one revision says who
// was held then. It is found out after the number was set, from the history of the queue: nothing but the
// number has changed at that revision. Whoever finds that this was not done does it, with the same result. If
// the history was compacted before, it stays open who was held: none of these counts as a holder for others,
// and none is removed as a waiter.
type number struct {
	Permits int64 `json:"permits"`           // 0: none was set, or it is not known
	Set     int64 `json:"set,omitempty"`     // the revision at which it was; 0: that of the key
	Unset   bool  `json:"unset,omitempty"`   // it is in force as long as a ticket stands that was created before that
	Held    int64 `json:"held,omitempty"`    // tickets that were created up to this revision are held
	Perhaps int64 `json:"perhaps,omitempty"` // further ones up to this revision may be
}

// complete is called when the key of the number was read, which was written at that revision. What was just set does
// not say when.
func (n *number) complete(written int64) {
	if n.Permits > 0 && n.Set == 0 {
		n.Set, n.Perhaps = written, written
	}
}

// sound: it can have been written at that revision. One of another cluster, whose keys were copied, can have later
// revisions: by these all would be held.
func (n *number) sound(written int64) bool {
	return min(n.Held, n.Perhaps) >= 0 && max(n.Held, n.Perhaps) <= n.Set && n.Set <= written &&
		n.Permits >= min(n.Held, 1) && n.Permits <= driver.MaxCapacity // nobody was held by a number that is not known
}

// open: nobody has found out who was held when the number was set.
func (n *number) open() bool { return n.Permits > 0 && n.Perhaps == n.Set }

// permits is the number that is in force; 0: none is, and each ticket says it.
func (ln *line) permits() int64 {
	if ln == nil || ln.number.Unset && (len(ln.tickets) == 0 || ln.tickets[0].created > ln.number.Set) {
		return 0
	}
	return ln.number.Permits
}

// unfit: it waits for more than there can be, or says another number.
func (ln *line) unfit(t *ticket) bool {
	n := ln.permits()
	return n > 0 && t.created > max(ln.number.Held, ln.number.Perhaps) && (ln.odd(t) || t.Kind == driver.Semaphore && t.Units > n)
}

// numbers does what is left to do of the numbers of permits of the queues that a look has read: it has
// waiters leave that can never fit, and a heartbeat finds out who was held. If it fails, the next look tries
// again: these queues are not the only ones of the client.
func (l *look) numbers(ctx context.Context) {
	for _, q := range l.queues {
		if len(q.unfits) > 0 {
			gone, _ := l.s.removeUnfit(ctx, q.kept, q.unfits)
			for _, t := range l.seen {
				if slices.Contains(gone, t.ticket) {
					l.found[t.i] = exchange.Status{}
				}
			}
		}
	}
	for name, q := range l.queues {
		if q.number.open() && !l.watch {
			_, _ = l.s.findHeld(ctx, name, q.kept)
		}
	}
}

// marked is the mark for a ticket that is granted. That of one that stands beside it says nothing of a death:
// it had all permits when they were fewer.
func (q *queue) marked(t *ticket) mark {
	m := q.mark
	if slices.ContainsFunc(q.tickets, func(o *ticket) bool { return o.id == m.ID }) {
		m.ID = t.id
	}
	return m
}
