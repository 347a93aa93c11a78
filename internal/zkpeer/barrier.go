package zkpeer

import (
	"context"
	"maps"
	"time"
)

// Barrier is a DistributedBarrier of Curator.
type Barrier struct {
	thread *Thread
	args   Args
}

// Barrier returns the barrier of a path.
func (t *Thread) Barrier(path string) *Barrier { return &Barrier{t, Args{"path": path}} }

// Set closes the barrier.
func (b *Barrier) Set() error { return b.thread.brief("barrier.set", b.args, nil) }

// Remove opens the barrier.
func (b *Barrier) Remove() error { return b.thread.brief("barrier.remove", b.args, nil) }

// Wait waits until the barrier is open.
func (b *Barrier) Wait(ctx context.Context) error {
	return b.thread.Call(ctx, "barrier.wait", b.args, nil)
}

// TryWait waits so long at most, and reports whether the barrier is open.
func (b *Barrier) TryWait(ctx context.Context, wait time.Duration) (ok bool, err error) {
	args := maps.Clone(b.args)
	args["timeout"] = wait.Milliseconds()
	err = b.thread.Call(ctx, "barrier.wait", args, &ok)
	return ok, err
}

// DoubleBarrier is a DistributedDoubleBarrier of Curator. Its thread is one of the members.
type DoubleBarrier struct {
	thread *Thread
	args   Args
}

// DoubleBarrier returns the double barrier of a path for so many members.
func (t *Thread) DoubleBarrier(path string, members int) *DoubleBarrier {
	return &DoubleBarrier{t, Args{"path": path, "members": members}}
}

// Enter waits until all have entered.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	return b.thread.Call(ctx, "doublebarrier.enter", b.args, nil)
}

// Leave waits until all have left.
func (b *DoubleBarrier) Leave(ctx context.Context) error {
	return b.thread.Call(ctx, "doublebarrier.leave", b.args, nil)
}
