// Package request makes requests over the client of ZooKeeper, which knows no context. The client of
// zklock and its doctor both need that.
package request

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
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

// Multi makes all changes or none.
func Multi(ctx context.Context, conn *zk.Conn, ops ...any) ([]zk.MultiResponse, error) {
	return Call(ctx, func() ([]zk.MultiResponse, error) {
		answers, err := conn.Multi(ops...)
		for _, a := range answers { // the first that failed says why
			if a.Error != nil {
				return answers, a.Error
			}
		}
		return answers, err
	})
}

// Remove removes a node of any version.
func Remove(ctx context.Context, conn *zk.Conn, path string) error {
	_, err := Call(ctx, func() (struct{}, error) { return struct{}{}, conn.Delete(path, -1) })
	return err
}

// Set writes a node that has this version; -1 is any.
func Set(ctx context.Context, conn *zk.Conn, path string, data []byte, version int32) (*zk.Stat, error) {
	return Call(ctx, func() (*zk.Stat, error) { return conn.Set(path, data, version) })
}

// Sync waits until the server has caught up with the leader.
func Sync(ctx context.Context, conn *zk.Conn, path string) error {
	_, err := Call(ctx, func() (string, error) { return conn.Sync(path) })
	return err
}

// Fatal returns err if nothing can be asked any more.
func Fatal(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, zk.ErrConnectionClosed) ||
		errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrClosing) {
		return err
	}
	return nil
}
