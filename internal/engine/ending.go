package engine

// ending is how a lease ends, and what its holder is told. The mutex of the lease guards it.
type ending struct {
	why     error         // nil: it has not ended
	done    chan struct{} // made when it is asked for
	revoked chan struct{} // made when it is asked for
	bound   bindings
}

// closedChan serves all leases that were over when their channel was asked for.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (f *ending) end(why error) {
	f.why = why
	if f.done != nil {
		close(f.done)
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

// askedFor is closed when another asks for the lock; asked says that it has.
func (f *ending) askedFor(asked bool) <-chan struct{} {
	if f.revoked == nil {
		if asked {
			return closedChan
		}
		f.revoked = make(chan struct{})
	}
	return f.revoked
}

// ask closes what askedFor has returned.
func (f *ending) ask() {
	if f.revoked != nil && f.revoked != closedChan {
		close(f.revoked)
		f.revoked = closedChan
	}
}
