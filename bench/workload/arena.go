package workload

import (
	"fmt"
	"time"
)

// arena is what a lock protects: plain variables that nothing else guards. If
// two hold the lock, they trip over each other here.
type arena struct {
	inside   bool
	grants   int64
	worker   int // that holds, or was the last to hold
	token    uint64
	released time.Time // just before
}

// visit is one stay in the arena.
type visit struct {
	a      *arena
	worker int
	grants int64
}

// enter reports whether the lock came from another worker, and how long ago
// that one began to release it.
func (a *arena) enter(worker int, h Held, now time.Time) (v visit, gap time.Duration, handed bool, err error) {
	if a.inside {
		err = fmt.Errorf("worker %d holds while worker %d holds", worker, a.worker)
	}
	if n, ok := h.(numbered); ok {
		t := n.Token()
		if t <= a.token && err == nil {
			err = fmt.Errorf("token %d after %d", t, a.token)
		}
		a.token = t
	}
	if handed = a.grants > 0 && a.worker != worker; handed {
		gap = now.Sub(a.released)
	}
	a.inside, a.worker = true, worker
	return visit{a, worker, a.grants}, gap, handed, err
}

func (v visit) leave(now time.Time) (err error) {
	a := v.a
	if a.worker != v.worker || a.grants != v.grants || !a.inside {
		err = fmt.Errorf("worker %d was in while worker %d held", a.worker, v.worker)
	}
	a.grants, a.inside, a.released = v.grants+1, false, now
	return err
}
