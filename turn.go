package interlock

import (
	"context"
	"sync"
)

// turn is one goroutine that waits in a line.
type turn struct {
	ctx   context.Context
	lock  *Lock
	ready chan struct{} // has a value once it is its turn

	// Guarded by line.mu until it is its turn.
	prev, next *turn
	waiting    bool
	came       uint64  // of Client.arrivals, in a line of readers
	closed     bool    // the client is closed
	lease      *single // its lease; nil: it drives
	old        *ticket // of one who drives: to be given back first
}

// spareTurns are those of one client: the channels of a simulated world cannot
// be used in another.
type spareTurns struct{ pool sync.Pool }

func (s *spareTurns) get(ctx context.Context, l *Lock) *turn {
	w, ok := s.pool.Get().(*turn)
	if !ok {
		w = &turn{ready: make(chan struct{}, 1)}
	}
	w.ctx, w.lock = ctx, l
	return w
}

// put is called by the waiter, after it has received from ready.
func (s *spareTurns) put(w *turn) {
	*w = turn{ready: w.ready}
	s.pool.Put(w)
}

// turns are those who wait, first come, first served.
type turns struct{ first, last *turn }

func (q *turns) empty() bool { return q.first == nil }

func (q *turns) push(w *turn) {
	w.waiting, w.prev = true, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

func (q *turns) remove(w *turn) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.waiting, w.prev, w.next = false, nil, nil
}
