package engine

// ending is how a lease ends, and what its holder is told. The mutex of the lease guards it.
type ending struct {
	why     error         // nil: it has not ended
	done    chan struct{} // made when it is waited for
	revoked chan struct{} // made when it is waited for
	asked   bool          // another asks for the lock
	bound   bindings
}

// closedChan serves all leases that were over when their channel was asked for.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// end ends the lease with err, and its bound contexts.
func (l *Lease) end(why error) {
	l.why = why
	if l.done != nil {
		close(l.done)
	}
	l.endBound(why)
}

// endBound ends the contexts that are bound to the lease.
func (l *Lease) endBound(why error) {
	if first := l.bound.takeAll(); first != nil {
		l.guard().afterUnlock(func() { first.end(why) })
	}
}

// ended is closed when the lease has ended.
func (f *ending) ended() <-chan struct{} {
	if f.done == nil {
		if f.why != nil {
			return closedChan
		}
		f.done = make(chan struct{})
	}
	return f.done
}

// askedFor is closed when another asks for the lock.
func (f *ending) askedFor() <-chan struct{} {
	if f.revoked == nil {
		if f.asked {
			return closedChan
		}
		f.revoked = make(chan struct{})
	}
	return f.revoked
}

// ask notes that another asks for the lock, and tells all who want to know.
func (l *Lease) ask() {
	if l.asked {
		return
	}
	l.asked = true
	for b := l.bound.first; b != nil; b = b.next {
		if b.Asked != nil {
			l.guard().afterUnlock(b.Asked)
		}
	}
	if l.revoked != nil {
		close(l.revoked)
	}
}

// Binding is a context that ends with a lease, or whoever else is told of its end.
type Binding struct {
	Ended      func(why error)
	Asked      func() // called when another asks for the lock; may be nil
	Work       bool   // its context is for work, which may go on after the loss
	entered    bool   // the work was noted, and its end was not
	prev, next *Binding
	listed     bool
}

// Bind has b hear of the end of the lease, and of the end of the client. It fails if that has come.
func (l *Lease) Bind(b *Binding) (why error) {
	if b.Work {
		b.entered = true
		for _, p := range l.Parts() {
			p.checked(p.workBegins)
		}
	}
	l.checked(func() {
		if why = l.why; why == nil {
			why = l.closed()
		}
		if why == nil {
			l.add(b)
		}
	})
	return why
}

func (l *Lease) add(b *Binding) {
	l.bound.add(b)
	if l.asked && b.Asked != nil {
		l.guard().afterUnlock(b.Asked)
	}
}

// closed is an error once the client, or that of a part, is being closed.
func (l *Lease) closed() error {
	switch {
	case l.parts != nil:
		return l.parts.closed
	case l.t.e.closing.Load():
		return ErrClosed
	}
	return nil
}

// Unbind notes that the work of b is over.
func (l *Lease) Unbind(b *Binding) {
	entered := false
	l.locked(func() {
		l.bound.remove(b)
		entered, b.entered = b.entered, false
	})
	if entered {
		for _, p := range l.Parts() {
			p.locked(p.workEnds)
		}
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
