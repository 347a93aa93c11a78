package drivertest

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
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

func (f *faults) do(ctx context.Context, method string, call func(context.Context) error) error {
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

// faultyDriver is a driver whose calls are struck.
type faultyDriver struct {
	driver.Driver
	f *faults
}

func (d *faultyDriver) Open(ctx context.Context, o driver.SessionOptions) (s *driver.Opened, err error) {
	err = d.f.do(ctx, "Open", func(ctx context.Context) (err error) { s, err = d.Driver.Open(ctx, o); return })
	if err != nil {
		return nil, err
	}
	s.Session = &faultySession{s.Session, d.f}
	return s, nil
}

func (d *faultyDriver) Load(ctx context.Context, name string) (c driver.Cell, err error) {
	err = d.f.do(ctx, "Load", func(ctx context.Context) (err error) { c, err = d.Driver.Load(ctx, name); return })
	return c, err
}

func (d *faultyDriver) Swap(ctx context.Context, s driver.Swap) (c driver.Cell, err error) {
	err = d.f.do(ctx, "Swap", func(ctx context.Context) (err error) { c, err = d.Driver.Swap(ctx, s); return })
	return c, err
}

func (d *faultyDriver) Watch(ctx context.Context, name string, after uint64) (c driver.Cell, err error) {
	err = d.f.do(ctx, "Watch", func(ctx context.Context) (err error) { c, err = d.Driver.Watch(ctx, name, after); return })
	return c, err
}

func (d *faultyDriver) Follow(ctx context.Context, queue, after string) (q driver.Queue, err error) {
	err = d.f.do(ctx, "Follow", func(ctx context.Context) (err error) { q, err = d.Driver.Follow(ctx, queue, after); return })
	return q, err
}

func (d *faultyDriver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return d.Driver.Queues(ctx, prefix)
}

func (d *faultyDriver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return d.f.do(ctx, "Ask", func(ctx context.Context) error { return d.Driver.Ask(ctx, queue, id, what) })
}

func (d *faultyDriver) Raise(ctx context.Context, queue string, floor uint64) error {
	return d.f.do(ctx, "Raise", func(ctx context.Context) error { return d.Driver.Raise(ctx, queue, floor) })
}

func (d *faultyDriver) Resize(ctx context.Context, queue string, capacity int64) error {
	return d.f.do(ctx, "Resize", func(ctx context.Context) error { return d.Driver.Resize(ctx, queue, capacity) })
}

type faultySession struct {
	driver.Session
	f *faults
}

func (s *faultySession) Join(ctx context.Context, r driver.Request) (t driver.Ticket, err error) {
	err = s.f.do(ctx, "Join", func(ctx context.Context) (err error) { t, err = s.Session.Join(ctx, r); return })
	return t, err
}

func (s *faultySession) Await(ctx context.Context, t driver.Ticket) (got driver.Ticket, err error) {
	err = s.f.do(ctx, "Await", func(ctx context.Context) (err error) { got, err = s.Session.Await(ctx, t); return })
	return got, err
}

func (s *faultySession) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	return s.f.do(ctx, "Shrink", func(ctx context.Context) error { return s.Session.Shrink(ctx, t, units) })
}

func (s *faultySession) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	return s.f.do(ctx, "Keep", func(ctx context.Context) error { return s.Session.Keep(ctx, t, d) })
}

func (s *faultySession) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	return s.f.do(ctx, "Leave", func(ctx context.Context) error { return s.Session.Leave(ctx, t, clean) })
}

func (s *faultySession) Renew(ctx context.Context, known []driver.Ticket) (r []driver.Renewed, err error) {
	err = s.f.do(ctx, "Renew", func(ctx context.Context) (err error) { r, err = s.Session.Renew(ctx, known); return })
	return r, err
}

func (s *faultySession) Close(ctx context.Context) error {
	return s.f.do(ctx, "Close", func(ctx context.Context) error { return s.Session.Close(ctx) })
}
