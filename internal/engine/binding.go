package engine

// ending is how a lease ends, and what its holder is told. The mutex of the lease guards it.
type ending struct {
	why     error         // nil: it has not ended
	done    chan struct{} // made when it is waited for
	revoked chan struct{} // made when it is waited for
	asked   bool          // another asks for the lock
	bound   list[Binding]
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
	for b := range l.bound.all() {
		l.bound.remove(&b.place) // the call may bind it again
		l.guard().afterUnlock(func() { b.Ended(why) })
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
	for b := range l.bound.all() {
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
	Ended   func(why error)
	Asked   func() // called when another asks for the lock; may be nil
	Work    bool   // its context is for work, which may go on after the loss
	entered bool   // the work was noted, and its end was not
	place   node[Binding]
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
	l.bound.push(&b.place, b)
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
		l.bound.remove(&b.place)
		entered, b.entered = b.entered, false
	})
	if entered {
		for _, p := range l.Parts() {
			p.locked(p.workEnds)
		}
	}
}
