package exchange

import (
	"context"
	"sync"
)

// Limiter bounds the exchanges that use a pool of connections at the same time. All but a few
// connections are for any exchange; these few are for holders, so that they
// can leave beside a crowd of waiters, and for the withdrawals of a crowd that gives up.
// Heartbeats are not bounded.
type Limiter struct {
	shared      chan struct{} // has room for as many as may be under way
	holders     chan struct{} // further room
	withdrawals chan struct{} // further room
}

// NewLimiter makes a limiter that lets so many exchanges be under way, and beside them so many
// for holders, and so many withdrawals.
func NewLimiter(shared, holders, withdrawals int) *Limiter {
	return &Limiter{make(chan struct{}, shared), make(chan struct{}, holders), make(chan struct{}, withdrawals)}
}

// Limit has the driver use a limiter, which other drivers on the same pool may use as well. It is
// called before the driver is used. Without it, any number of exchanges may be under way.
func (d *Driver) Limit(l *Limiter) { d.limiter = l }

// acquire waits for room, until one of two contexts ends.
func (l *Limiter) acquire(ctx, closed context.Context) (release func(), err error) {
	of := classOf(ctx)
	if l == nil || of == heartbeat {
		return func() {}, nil
	}
	var further chan struct{}
	select {
	case l.shared <- struct{}{}: // rather than further room
		return func() { <-l.shared }, nil
	default:
	}
	switch of {
	case ofHolder:
		further = l.holders
	case ofWaiter:
		further = l.withdrawals
	}
	return enter(ctx, closed, l.shared, further)
}

// enter waits for room in one of two places (the second may be nil), until one of two contexts ends.
func enter(ctx, closed context.Context, room, further chan struct{}) (leave func(), err error) {
	select {
	case room <- struct{}{}:
		return func() { <-room }, nil
	case further <- struct{}{}:
		return func() { <-further }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-closed.Done():
		return nil, errClosed
	}
}

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
	forget := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(l.queues, queue)
		}
	}
	leave, err := enter(ctx, closed, q.taken, nil)
	if err != nil {
		forget()
		return nil, err
	}
	return func() { leave(); forget() }, nil
}
