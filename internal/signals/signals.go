// Package signals keeps what a session of a backend has not been told yet.
package signals

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// Queue has each signal once. It is for many callers.
type Queue struct {
	mu   sync.Mutex
	all  []driver.Signal
	has  map[driver.Signal]bool
	bell chan struct{}
}

// New makes an empty queue.
func New() *Queue { return &Queue{has: map[driver.Signal]bool{}, bell: make(chan struct{}, 1)} }

// Add waits for nothing. A signal that is still to be delivered is not doubled.
func (q *Queue) Add(demand driver.Demand, queue, id string) {
	s := driver.Signal{Demand: demand, Queue: queue, ID: id}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.has[s] {
		return
	}
	q.has[s] = true
	q.all = append(q.all, s)
	q.ring()
}

// Next waits for a signal and takes it. It returns the error of usable, which it
// asks whenever ctx or one of the others ends, as soon as there is one.
func (q *Queue) Next(ctx context.Context, usable func(context.Context) error, session, driverDone <-chan struct{}) (driver.Signal, error) {
	for {
		if err := usable(ctx); err != nil {
			return driver.Signal{}, err
		}
		if s, ok := q.take(); ok {
			return s, nil
		}
		select {
		case <-q.bell:
		case <-ctx.Done():
		case <-session:
		case <-driverDone:
		}
	}
}

func (q *Queue) take() (driver.Signal, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.all) == 0 {
		return driver.Signal{}, false
	}
	s := q.all[0]
	q.all = q.all[1:]
	delete(q.has, s)
	if len(q.all) > 0 {
		q.ring() // for another caller
	}
	return s, true
}

func (q *Queue) ring() {
	select {
	case q.bell <- struct{}{}:
	default:
	}
}
