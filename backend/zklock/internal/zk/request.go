package zk

import (
	"context"
	"errors"

	client "github.com/go-zookeeper/zk"
)

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

// Fatal returns err if nothing can be asked any more.
func Fatal(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrConnectionClosed) ||
		errors.Is(err, client.ErrSessionExpired) || errors.Is(err, client.ErrClosing) {
		return err
	}
	return nil
}

// do is Call for what has no result.
func do(ctx context.Context, f func() error) error {
	_, err := Call(ctx, func() (struct{}, error) { return struct{}{}, f() })
	return err
}
