package interlock

import (
	"context"
	"sync"
	"time"
)

// bounded is context.WithTimeout for calls that mostly return at once: its
// timer is not made before a driver asks for the channel.
type bounded struct {
	parent   context.Context
	deadline time.Time

	mu     sync.Mutex
	inner  context.Context // nil until it is asked for
	cancel context.CancelFunc
	over   bool
}

func bound(ctx context.Context, limit time.Duration) *bounded { return new(bounded).begin(ctx, limit) }

// begin is called once.
func (b *bounded) begin(ctx context.Context, limit time.Duration) *bounded {
	b.parent, b.deadline = ctx, time.Now().Add(limit)
	return b
}

// release frees the timer.
func (b *bounded) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.cancel != nil {
		b.cancel()
	}
}

func (b *bounded) Deadline() (time.Time, bool) {
	if d, ok := b.parent.Deadline(); ok && d.Before(b.deadline) {
		return d, true
	}
	return b.deadline, true
}

func (b *bounded) Done() <-chan struct{} {
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

func (b *bounded) made() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inner
}

func (b *bounded) Err() error {
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

func (b *bounded) Value(key any) any {
	if inner := b.made(); inner != nil {
		return inner.Value(key)
	}
	return b.parent.Value(key)
}
