package interlock

import "context"

// binding is a context that ends with a lease, or whoever else is told of its end.
type binding struct {
	cancel     context.CancelCauseFunc
	asked      func() // called, with the mutex of the queue held, when another asks for the lock; may be nil
	work       bool   // its context is for work, which may go on after the loss
	entered    bool   // the work was noted, and its end was not
	prev, next *binding
	listed     bool
}

// Bind returns a context that ends with the lease, with a cause that wraps
// ErrLost, ErrReleased or ErrClosed, and that carries the lease: whoever is
// given it is the holder (see [Lock.Held] and [Reentrant]). Call the function
// to free it.
func (l *Lease) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(l.carry(ctx))
	b := &binding{cancel: cancel, work: true}
	if err := l.bind(b); err != nil {
		cancel(l.fail("hold", err))
	}
	return ctx, func() {
		l.unbind(b)
		cancel(context.Canceled)
	}
}

// bind has a context end with the lease. It fails if the lease has ended.
func (l *Lease) bind(b *binding) error {
	if l.all != nil {
		return l.all.bind(b)
	}
	return l.part.bind(b)
}

func (l *Lease) unbind(b *binding) {
	if l.all != nil {
		l.all.unbind(b)
	} else {
		l.part.unbind(b)
	}
}

func (l *single) bind(b *binding) (why error) {
	l.t.judged(func() {
		if b.work {
			b.entered = true
			l.workBegins()
		}
		if why = l.fate.why; why == nil && l.t.c.closing.Load() {
			why = ErrClosed
		}
		if why == nil {
			l.fate.bound.add(b)
		}
	})
	return why
}

// watch is bind for whoever wants to hear of the end of the lease itself, which comes later than
// that of its contexts when the client is closed.
func (l *single) watch(b *binding) (why error) {
	l.t.judged(func() {
		if why = l.fate.why; why == nil {
			l.fate.bound.add(b)
		}
	})
	return why
}

func (l *single) unbind(b *binding) {
	l.t.q.mu.Lock()
	defer l.t.q.unlock()
	l.fate.bound.remove(b)
	if b.entered {
		b.entered = false
		l.workEnds()
	}
}

// endBound ends the contexts that are bound to the lease.
func (l *single) endBound(why error) {
	if first := l.fate.bound.takeAll(); first != nil {
		cause := l.lease.fail("hold", why)
		l.t.q.then(func() { first.end(cause) })
	}
}

// bindings is a list of contexts, guarded by the mutex of its lease.
type bindings struct{ first *binding }

func (l *bindings) add(b *binding) {
	b.listed, b.prev, b.next = true, nil, l.first
	if b.next != nil {
		b.next.prev = b
	}
	l.first = b
}

func (l *bindings) remove(b *binding) {
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
		l.first = b.next
	}
}

// takeAll empties the list.
func (l *bindings) takeAll() (first *binding) {
	first, l.first = l.first, nil
	for b := first; b != nil; b = b.next {
		b.listed = false
	}
	return first
}

// end ends the contexts of a list that was taken.
func (b *binding) end(cause error) {
	for b != nil {
		next := b.next // cancel may put b on a list again
		b.cancel(cause)
		b = next
	}
}
