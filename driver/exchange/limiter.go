package exchange

import "context"

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
	c := classOf(ctx)
	if l == nil || c == heartbeat {
		return func() {}, nil
	}
	var further chan struct{}
	switch c {
	case ofHolder:
		further = l.holders
	case withdrawal:
		further = l.withdrawals
	}
	select {
	case l.shared <- struct{}{}:
		return func() { <-l.shared }, nil
	default:
	}
	select {
	case l.shared <- struct{}{}:
		return func() { <-l.shared }, nil
	case further <- struct{}{}:
		return func() { <-further }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-closed.Done():
		return nil, errClosed
	}
}
