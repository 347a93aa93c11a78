package interlock

import (
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
	if l.isAll() {
		for _, p := range l.held.Parts() {
			ctx = leaseOf(p).carry(ctx)
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
func carried(ctx context.Context) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		h, _ := ctx.Value(heldKey{}).(*heldLeases)
		for ; h != nil; h = h.outer {
			if !h.lease.isAll() && !yield(h.lease) { // parts of All are carried beside it
				return
			}
		}
	}
}

// heldOf yields the live leases in ctx of the same name and kind at the same
// client.
func (l *Lock) heldOf(ctx context.Context) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for s := range carried(ctx) {
			o := s.lock
			if o.c == l.c && o.cfg.Queue == l.cfg.Queue && o.cfg.Kind == l.cfg.Kind && s.Err() == nil && !yield(s) {
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
		if lease.Exclusive() || !l.cfg.Exclusive() {
			return lease, true
		}
	}
	return nil, false
}

// Leases returns the live leases that this client has of a name, whatever the kind of the lock, in the order in
// which they were granted: does this process hold it? It asks the backend nothing, and needs no context that
// carries them. Of [All] there are the parts. A lock that [Sticky] keeps without a lease is not held, and a
// place in line is none. What it returns may have ended by the time that it is looked at.
func (c *Client) Leases(name string) (leases []*Lease) {
	for _, l := range c.e.Leases(c.cfg.prefix + name) {
		leases = append(leases, leaseOf(l))
	}
	return leases
}

// allHeld is Held for the lock of all parts: the lease of one All that has them.
func (l *Lock) allHeld(ctx context.Context) (*Lease, bool) {
	h, _ := ctx.Value(heldKey{}).(*heldLeases)
	for ; h != nil; h = h.outer {
		if h.lease.isAll() && h.lease.holds(l) {
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
func (l *Lease) enterOpen(ctx context.Context) (nested bool, err error) {
	e := l.lock.c.e
	switch {
	case l.lock.err != nil:
		return false, l.lock.err
	case ctx.Err() != nil:
		return false, e.EndOfWait(ctx)
	case e.Context().Err() != nil:
		return false, ErrClosed
	}
	return l.enter(ctx)
}

// enter decides what an acquire means for a context that may hold the lock
// already: another lease of the same grant, ErrDeadlock, or (false, nil), an
// acquire like any other. Permits of one holder add up: only what can never fit
// beside them is a deadlock.
func (l *Lease) enter(ctx context.Context) (nested bool, err error) {
	want := &l.lock.cfg
	units := want.Units
	var seen []*Lease // nested leases have no units of their own
	for lease := range l.lock.heldOf(ctx) {
		nested, has := l.nestIn(lease)
		switch {
		case nested:
			return true, nil
		case has == 0:
			continue // it was lost just now
		}
		switch {
		case want.Kind == driver.RWMutex && want.Exclusive() && !lease.Exclusive():
			return false, &upgrade{}
		case want.Kind == driver.Mutex || want.Kind == driver.RWMutex || want.Kind == driver.Election:
			return false, ErrDeadlock
		}
		if slices.ContainsFunc(seen, func(s *Lease) bool { return s.held.Beside(&lease.held) }) {
			continue
		}
		seen = append(seen, lease)
		if units += has; units > max(want.Capacity, lease.held.Capacity()) {
			return false, ErrDeadlock
		}
	}
	return false, nil
}

// nestIn makes it another lease of the grant of outer. Events of both have one ID.
func (l *Lease) nestIn(outer *Lease) (ok bool, has int64) {
	if l.span == nil {
		return outer.held.Nest(&l.held)
	}
	own := l.span.id
	l.span.id = outer.span.id
	if ok, has = outer.held.Nest(&l.held); !ok {
		l.span.id = own
	}
	return ok, has
}
