package interlock

import "context"

// binding is a context that ends with the lease: one of a list, guarded by
// ticket.mu.
type binding struct {
	cancel     context.CancelCauseFunc
	prev, next *binding
	listed     bool
}

// Bind returns a context that ends with the lease, with a cause that wraps
// ErrLost, ErrReleased or ErrClosed, and that carries the lease: whoever is
// given it is the holder (see [Lock.Held] and [Reentrant]). Call the function
// to free it.
func (l *Lease) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(carry(ctx, l))
	b := &binding{cancel: cancel}
	unlock := l.locked()
	err := l.err
	if err == nil && l.t.winding {
		err = ErrClosed
	}
	if err == nil {
		l.list(b)
	}
	unlock()
	if err != nil {
		cancel(l.fail("hold", err))
	}
	return ctx, func() {
		l.t.mu.Lock()
		l.unlist(b)
		l.t.mu.Unlock()
		cancel(context.Canceled)
	}
}

func (l *Lease) list(b *binding) {
	b.listed, b.next = true, l.bound
	if b.next != nil {
		b.next.prev = b
	}
	l.bound = b
}

func (l *Lease) unlist(b *binding) {
	if !b.listed {
		return
	}
	b.listed = false
	if b.next != nil {
		b.next.prev = b.prev
	}
	if b.prev != nil {
		b.prev.next = b.next
	} else {
		l.bound = b.next
	}
}

// unbind takes all bindings off the list. t.mu is held; the caller calls the
// result, which ends the contexts, after unlocking.
func (l *Lease) unbind(why error) func() {
	first := l.bound
	if first == nil {
		return nothing
	}
	l.bound = nil
	for b := first; b != nil; b = b.next {
		b.listed = false
	}
	cause := l.fail("hold", why)
	return func() {
		for b := first; b != nil; b = b.next {
			b.cancel(cause)
		}
	}
}
