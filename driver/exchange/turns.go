package exchange

import (
	"context"
	"sync"
)

// turns bounds the Joins of this client that are under way in one queue. The database makes
// them one after the other: more of them would only wait there, each with a connection, and
// could not be taken back when their callers give up.
type turns struct {
	mu   sync.Mutex
	open map[string]*turn // by name of the queue
}

type turn struct {
	room  chan struct{}
	users int // with those who wait for room
}

// perQueue is enough to have the next one there when the database is ready for it.
const perQueue = 2

// enter waits for room in a queue, until one of two contexts ends.
func (t *turns) enter(ctx, closed context.Context, queue string) (leave func(), err error) {
	t.mu.Lock()
	if t.open == nil {
		t.open = map[string]*turn{}
	}
	q := t.open[queue]
	if q == nil {
		q = &turn{room: make(chan struct{}, perQueue)}
		t.open[queue] = q
	}
	q.users++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(t.open, queue)
		}
	}
	select {
	case q.room <- struct{}{}:
		return func() { <-q.room; gone() }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-closed.Done():
		err = errClosed
	}
	gone()
	return nil, err
}
