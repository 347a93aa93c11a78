package engine

// Binding is a context that ends with a lease, or whoever else is told of its end.
type Binding struct {
	Ended      func(why error)
	Asked      func() // called, with the mutex of the queue held, when another asks for the lock; may be nil
	Work       bool   // its context is for work, which may go on after the loss
	entered    bool   // the work was noted, and its end was not
	prev, next *Binding
	listed     bool
}

// Bind has b hear of the end of the lease, and of the end of the client. It fails if that has come.
func (l *Lease) Bind(b *Binding) (why error) {
	l.t.checked(func() {
		if b.Work {
			b.entered = true
			l.workBegins()
		}
		if why = l.ending.why; why == nil && l.t.e.closing.Load() {
			why = ErrClosed
		}
		if why == nil {
			l.ending.bound.add(b)
		}
	})
	return why
}

// watch is bind for whoever wants to hear of the end of the lease itself, which comes later than
// that of its contexts when the client is closed.
func (l *Lease) watch(b *Binding) (why error) {
	l.t.checked(func() {
		if why = l.ending.why; why == nil {
			l.ending.bound.add(b)
		}
	})
	return why
}

// Unbind notes that the work of b is over.
func (l *Lease) Unbind(b *Binding) {
	l.t.q.mu.Lock()
	defer l.t.q.unlock()
	l.ending.bound.remove(b)
	if b.entered {
		b.entered = false
		l.workEnds()
	}
}

// endBound ends the contexts that are bound to the lease.
func (l *Lease) endBound(why error) {
	if first := l.ending.bound.takeAll(); first != nil {
		l.t.q.afterUnlock(func() { first.end(why) })
	}
}

// bindings is a list of contexts, guarded by the mutex of its lease.
type bindings struct{ first *Binding }

func (l *bindings) add(b *Binding) {
	b.listed, b.prev, b.next = true, nil, l.first
	if b.next != nil {
		b.next.prev = b
	}
	l.first = b
}

func (l *bindings) remove(b *Binding) {
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
func (l *bindings) takeAll() (first *Binding) {
	first, l.first = l.first, nil
	for b := first; b != nil; b = b.next {
		b.listed = false
	}
	return first
}

// end ends the contexts of a list that was taken.
func (b *Binding) end(cause error) {
	for b != nil {
		next := b.next // cancel may put b on a list again
		b.Ended(cause)
		b = next
	}
}
