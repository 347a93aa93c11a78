package exchange

import (
	"context"
	"sync"
)

// queueLimiter bounds the Joins of this client that are under way in one queue. The backend makes
// them one after the other: more of them would only wait there, each with a connection, and could
// not be taken back when their callers give up.
type queueLimiter struct {
	mu     sync.Mutex
	queues map[string]*queueRoom // by name
}

type queueRoom struct {
	taken chan struct{} // has room for perQueue
	users int           // those that have room, and those that wait for it
}

// perQueue is enough to have the next Join there when the backend is ready for it.
const perQueue = 2

// acquire waits for room in a queue, until one of two contexts ends.
func (l *queueLimiter) acquire(ctx, closed context.Context, queue string) (release func(), err error) {
	l.mu.Lock()
	q := l.queues[queue]
	if q == nil {
		q = &queueRoom{taken: make(chan struct{}, perQueue)}
		l.queues[queue] = q
	}
	q.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(l.queues, queue)
		}
	}
	select {
	case q.taken <- struct{}{}:
		return func() { <-q.taken; leave() }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-closed.Done():
		err = errClosed
	}
	leave()
	return nil, err
}
