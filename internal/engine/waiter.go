package engine

import "sync"

// waiter is one goroutine that waits in a local queue.
type waiter struct {
	lease *Lease        // that it waits for
	ready chan struct{} // has a value once it is its turn

	// Guarded by the mutex of the queue until it is its turn.
	place  node[waiter]
	came   uint64  // of queue.arrivals, in one of readers
	closed bool    // the client is closed
	served bool    // it has the lease; else it fetches a ticket
	old    *ticket // of one who fetches: to be given back first
}

// spareWaiters serve one client: the channels of a simulated world cannot
// be used in another.
type spareWaiters struct{ pool sync.Pool }

func (s *spareWaiters) get(l *Lease) *waiter {
	w, ok := s.pool.Get().(*waiter)
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.lease = l
	return w
}

// put is called by the waiter, after it has received from ready.
func (s *spareWaiters) put(w *waiter) {
	*w = waiter{ready: w.ready}
	s.pool.Put(w)
}
