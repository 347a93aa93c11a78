package interlock

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/interlock-go/interlock/driver"
)

// A context carries the leases that its holder has, innermost first.
type heldKey struct{}

type heldLeases struct {
	lease *Lease
	outer *heldLeases
}

// carry adds the lease to a context, behind its parts, so that each of them is found as if it were acquired alone.
func (l *Lease) carry(ctx context.Context) context.Context {
	if l.all != nil {
		for _, p := range l.parts() {
			ctx = p.lease.carry(ctx)
		}
	}
	outer, _ := ctx.Value(heldKey{}).(*heldLeases)
	return context.WithValue(ctx, heldKey{}, &heldLeases{l, outer})
}

// Detach returns a context that holds nothing, for work that outlives the
// holder, or that must not enter its locks again.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(ctx, heldKey{}, (*heldLeases)(nil))
}

// LeaseFrom returns the innermost lease that ctx carries, for its token: in the function of
// [Lock.Do], which gets such a context, and in all that this calls, it is the lease under
// which that works. It may have been lost meanwhile: its Err says so. Without one it is nil. Of
// several locks [Lock.Held] finds that of one.
func LeaseFrom(ctx context.Context) *Lease {
	h, _ := ctx.Value(heldKey{}).(*heldLeases)
	if h == nil {
		return nil
	}
	return h.lease
}

// carried yields the leases that ctx carries, innermost first, also those that have ended. Of an [All] these are the
// parts.
func carried(ctx context.Context) iter.Seq[*single] {
	return func(yield func(*single) bool) {
		h, _ := ctx.Value(heldKey{}).(*heldLeases)
		for ; h != nil; h = h.outer {
			if s := h.lease.part; s != nil && !yield(s) { // parts of All are carried beside it
				return
			}
		}
	}
}

// heldOf yields the live leases in ctx of the same name and kind at the same
// client.
func (l *Lock) heldOf(ctx context.Context) iter.Seq[*single] {
	return func(yield func(*single) bool) {
		for s := range carried(ctx) {
			o := s.lock
			if o.c == l.c && o.queue == l.queue && o.kind == l.kind && s.err() == nil && !yield(s) {
				return
			}
		}
	}
}

// Held returns the live lease of this lock that ctx carries, if it does. The
// writer's lease serves as a reader's too.
func (l *Lock) Held(ctx context.Context) (*Lease, bool) {
	if l.parts != nil {
		return l.allHeld(ctx)
	}
	for lease := range l.heldOf(ctx) {
		if lease.exclusive() || !l.exclusive() {
			return &lease.lease, true
		}
	}
	return nil, false
}

// Leases returns the live leases that this client has of a name, whatever the kind of the lock, in the order in
// which they were granted: does this process hold it? It asks the backend nothing, and needs no context that
// carries them. Of [All] there are the parts. A lock that [Sticky] keeps without a lease is not held, and a
// place in line is none. What it returns may have ended by the time that it is looked at.
func (c *Client) Leases(name string) (leases []*Lease) {
	q := c.queue(c.cfg.prefix + name)
	defer q.leave()
	var live []*single
	q.each(func(t *ticket) {
		t.judge(c.d.Now())
		live = append(live, t.leases...)
	})
	slices.SortFunc(live, func(a, b *single) int {
		return cmp.Or(cmp.Compare(a.g.since, b.g.since), cmp.Compare(a.token(), b.token()))
	})
	for _, l := range live {
		leases = append(leases, &l.lease)
	}
	return leases
}

// allHeld is Held for the lock of all parts: the lease of one All that has them.
func (l *Lock) allHeld(ctx context.Context) (*Lease, bool) {
	h, _ := ctx.Value(heldKey{}).(*heldLeases)
	for ; h != nil; h = h.outer {
		if w := h.lease.all; w != nil && w.holds(l) {
			return h.lease, true
		}
	}
	return nil, false
}

// upgrade is the ErrDeadlock of a reader that asks for the writer's side: none of the ways
// out that ErrDeadlock names helps, as two that did so would wait for each other.
type upgrade struct{}

func (*upgrade) Error() string {
	return "the reader's side is already held by this context, and has to be released first"
}
func (*upgrade) Unwrap() error { return ErrDeadlock }

// enterOpen is enter for an acquire that begins: it refuses what can never succeed.
func (l *Lock) enterOpen(ctx context.Context) (*single, error) {
	switch {
	case l.err != nil:
		return nil, l.err
	case ctx.Err() != nil:
		return nil, l.c.endOfWait(ctx)
	case l.c.ctx.Err() != nil:
		return nil, ErrClosed
	}
	return l.enter(ctx)
}

// enter decides what an acquire means for a context that may hold the lock
// already: another lease of the same grant, ErrDeadlock, or (nil, nil), an
// acquire like any other. Permits of one holder add up: only what can never fit
// beside them is a deadlock.
func (l *Lock) enter(ctx context.Context) (*single, error) {
	units := l.units
	var seen []*grant // nested leases have no units of their own
	for lease := range l.heldOf(ctx) {
		nested, has := lease.nest(ctx, l)
		switch {
		case nested != nil:
			return nested, nil
		case has == 0:
			continue // it was lost just now
		}
		switch {
		case l.kind == driver.RWMutex && l.exclusive() && !lease.exclusive():
			return nil, &upgrade{}
		case l.kind == driver.Mutex || l.kind == driver.RWMutex || l.kind == driver.Election:
			return nil, ErrDeadlock
		}
		if slices.Contains(seen, lease.g) {
			continue
		}
		seen = append(seen, lease.g)
		if units += has; units > max(l.capacity, lease.t.req.Capacity) {
			return nil, ErrDeadlock
		}
	}
	return nil, nil
}
