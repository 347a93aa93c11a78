// Package bounded is context.WithTimeout for calls that mostly return at once.
package bounded

import (
	"context"
	"sync"
	"time"
)

// Context ends with its parent, or at its deadline. Its timer is not made before a callee asks for the channel.
type Context struct {
	parent   context.Context
	deadline time.Time

	mu     sync.Mutex
	inner  context.Context // nil until it is asked for
	cancel context.CancelFunc
	over   bool
}

// New returns a context that has begun. Release is to be called for it.
func New(ctx context.Context, limit time.Duration) *Context { return new(Context).Begin(ctx, limit) }

// Begin gives a Context its parent and its limit. It is called once, for one that was not made by New.
func (b *Context) Begin(ctx context.Context, limit time.Duration) *Context {
	b.parent, b.deadline = ctx, time.Now().Add(limit)
	return b
}

// Release frees the timer.
func (b *Context) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.cancel != nil {
		b.cancel()
	}
}

func (b *Context) Deadline() (time.Time, bool) {
	if d, ok := b.parent.Deadline(); ok && d.Before(b.deadline) {
		return d, true
	}
	return b.deadline, true
}

func (b *Context) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		b.inner, b.cancel = context.WithDeadline(b.parent, b.deadline)
		if b.over {
			b.cancel()
		}
	}
	return b.inner.Done()
}

func (b *Context) made() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inner
}

func (b *Context) Err() error {
	if inner := b.made(); inner != nil {
		return inner.Err()
	}
	if err := b.parent.Err(); err != nil {
		return err
	}
	if !time.Now().Before(b.deadline) {
		<-b.Done() // context.Cause looks there
		return b.made().Err()
	}
	return nil
}

func (b *Context) Value(key any) any {
	if inner := b.made(); inner != nil {
		return inner.Value(key)
	}
	return b.parent.Value(key)
}
