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

// Run runs f, and returns when that has ended or ctx has. f then goes on by itself.
func Run(ctx context.Context, f func() error) error {
	if ctx.Done() == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
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
