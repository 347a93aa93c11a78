package zk

import (
	"context"
	"errors"
)

// Unless is the error, or nil for one.
func Unless(err, one error) error {
	if errors.Is(err, one) {
		return nil
	}
	return err
}

// Call makes a call of the client until ctx ends. The call then goes on by itself.
func Call[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	return Run(ctx, f)
}

// Run is Call that makes the call even if ctx has ended.
func Run[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return f()
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// Turn is a mutex whose wait ends with a context.
type Turn chan struct{}

// NewTurn is free.
func NewTurn() Turn { return make(Turn, 1) }

// Take waits for the turn, which is then the caller's until Give.
func (t Turn) Take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TakeNow takes the turn if it is free.
func (t Turn) TakeNow() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// Give ends it.
func (t Turn) Give() { <-t }

// do is Call for what has no result.
func do(ctx context.Context, f func() error) error {
	_, err := Call(ctx, func() (struct{}, error) { return struct{}{}, f() })
	return err
}
