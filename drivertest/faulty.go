package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

var errLost = errors.New("drivertest: the reply was lost")

// A fault strikes one call: it makes the call itself, or not, and decides what
// the caller sees.
type fault func(ctx context.Context, call func(context.Context) error) error

// faults counts the calls of its drivers and strikes the k-th.
type faults struct {
	mu    sync.Mutex
	calls int
	k     int
	fault fault
	hit   string // the method that was struck
}

func (f *faults) hook(ctx context.Context, method string, call func(context.Context) error) error {
	f.mu.Lock()
	f.calls++
	strike := f.calls == f.k
	if strike {
		f.hit = method
	}
	f.mu.Unlock()
	if strike {
		return f.fault(ctx, call)
	}
	return call(ctx)
}

// lostReply has the effect and loses the reply.
func lostReply(ctx context.Context, call func(context.Context) error) error {
	call(ctx)
	return errLost
}

// lostAnswer has a context end while the answer is on its way.
func lostAnswer(late func() (resume func())) fault {
	return func(ctx context.Context, call func(context.Context) error) error {
		const happened = 50 * time.Millisecond
		ctx, cancel := context.WithTimeout(ctx, happened)
		defer cancel()
		resume := sync.OnceFunc(late())
		stop := time.AfterFunc(2*happened, resume) // for a call that nothing breaks off
		defer stop.Stop()
		call(ctx)
		resume()
		return errLost
	}
}

// lostCall fails before the effect.
func lostCall(context.Context, func(context.Context) error) error { return errLost }

// cancelled makes the call with a context that has ended before.
func cancelled(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return call(ctx)
}

// cancelledAtLook makes the call with a context that ends when it is looked at
// for the n-th time.
func cancelledAtLook(n int) fault {
	return func(ctx context.Context, call func(context.Context) error) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return call(&shyContext{Context: ctx, cancel: cancel, left: n})
	}
}

// cancelledDuring makes the call with a context that ends at any time.
func cancelledDuring(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := time.AfterFunc(rand.N(time.Millisecond), cancel)
	defer stop.Stop()
	return call(ctx)
}

// shyContext ends when it is looked at too often.
type shyContext struct {
	context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	left   int
}

func (c *shyContext) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		c.cancel()
	}
}

func (c *shyContext) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *shyContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}
