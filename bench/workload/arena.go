package workload

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// place is what a lock protects.
type place interface {
	// enter reports whether the lock came from another worker, and how long ago that one
	// began to release it.
	enter(worker int, token uint64, now time.Time) (gap time.Duration, handed bool, err error)
	leave(worker int, now time.Time) error
}

// arena is what a lock protects: plain variables that nothing else guards. If
// two hold the lock, they trip over each other here.
type arena struct {
	inside   bool
	grants   int64
	worker   int // that holds, or was the last to hold
	token    uint64
	released time.Time // just before
}

func (a *arena) enter(worker int, token uint64, now time.Time) (gap time.Duration, handed bool, err error) {
	if a.inside {
		err = fmt.Errorf("worker %d holds while worker %d holds", worker, a.worker)
	}
	if token != 0 {
		if token <= a.token && err == nil {
			err = fmt.Errorf("token %d after %d", token, a.token)
		}
		a.token = token
	}
	if handed = a.grants > 0 && a.worker != worker; handed {
		gap = now.Sub(a.released)
	}
	a.inside, a.worker = true, worker
	a.grants++
	return gap, handed, err
}

func (a *arena) leave(worker int, now time.Time) (err error) {
	if a.worker != worker || !a.inside {
		err = fmt.Errorf("worker %d was in while worker %d held", a.worker, worker)
	}
	a.inside, a.released = false, now
	return err
}

// room has space for several at once.
type room struct {
	space int64
	taken atomic.Int64
}

// seat is so much of a room.
type seat struct {
	*room
	units int64
}

func (s seat) enter(worker int, _ uint64, _ time.Time) (time.Duration, bool, error) {
	if n := s.taken.Add(s.units); n > s.space {
		return 0, false, fmt.Errorf("worker %d makes it %d in a room for %d", worker, n, s.space)
	}
	runtime.Gosched() // so that others come in, if they can
	return 0, false, nil
}

func (s seat) leave(int, time.Time) error {
	s.taken.Add(-s.units)
	return nil
}
