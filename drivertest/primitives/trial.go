package primitives

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/busy"
)

// limit bounds the waits of a rule for what must happen. It is far more than any
// backend needs, so that a busy machine breaks no rule.
const limit = time.Minute

// A trial is a rule under check: it fails with the promise that was broken.
type trial struct {
	testing.TB
	Backend

	rule    rule
	variant variant
	world   drivertest.World

	ctx    context.Context // ends with the rule, or after the limit
	cancel context.CancelFunc

	mu      sync.Mutex
	closers []func()
	calls   sync.WaitGroup
}

// run checks the rule in a new world, and once more in another one if this
// machine or the backend paused for longer than the rule bears.
func (r rule) run(tb testing.TB, b Backend, v variant) {
	tb.Helper()
	const attempts = 20
	for range attempts {
		why := r.attempt(tb, b, v)
		if why == nil {
			return
		}
		tb.Logf("%v; again", why)
	}
	tb.Fatalf("this machine is too slow: %d attempts", attempts)
}

// errPaused is what a rule panics with when what it saw tells nothing.
var errPaused = errors.New("paused")

func (r rule) attempt(tb testing.TB, b Backend, v variant) (paused error) {
	tb.Helper()
	t := &trial{TB: tb, Backend: b, rule: r, variant: v, world: b.World(tb)}
	t.allow(limit)
	defer func() {
		p := recover()
		err, ok := p.(error)
		switch {
		case p == nil:
		case ok && errors.Is(err, errPaused):
			paused = err
		default:
			panic(p)
		}
	}()
	defer func() {
		t.cancel()
		for i := len(t.closers) - 1; i >= 0; i-- {
			t.closers[i]()
		}
		t.calls.Wait()
	}()
	r.check(t)
	if !t.Failed() {
		t.nothingLeft()
	}
	return nil
}

// allow gives the rule so much time, from now.
func (t *trial) allow(d time.Duration) {
	if t.cancel != nil {
		t.cancel()
	}
	if !t.Simulated {
		d = busy.Bound(d)
	}
	t.ctx, t.cancel = context.WithTimeout(context.Background(), d)
}

// Errorf fails the rule and goes on.
func (t *trial) Errorf(format string, args ...any) {
	t.Helper()
	t.TB.Errorf("%s\nbroken promise:\n\t%s", fmt.Sprintf(format, args...), t.rule.promise)
}

// Fatalf fails the rule and ends it. Only the rule's own goroutine may call it.
func (t *trial) Fatalf(format string, args ...any) {
	t.Helper()
	t.TB.Fatalf("%s\nbroken promise:\n\t%s", fmt.Sprintf(format, args...), t.rule.promise)
}

func (t *trial) ok(err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (t *trial) is(err, want error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got the error %v, not %v", what, err, want)
	}
}

// client opens a client whose sessions outlive the rule: what it holds is not
// lost, and nothing is repaired by its heartbeat, which does not come.
func (t *trial) client(opts ...interlock.ClientOption) *interlock.Client {
	t.Helper()
	return t.open(10*limit, opts...)
}

func (t *trial) pair() (a, b *interlock.Client) { return t.client(), t.client() }

// beating opens a client with a heartbeat that comes several times within the
// limit: what others ask of it reaches it with the next one at the latest, and so
// does the end of a ticket that was in front of its own.
func (t *trial) beating(opts ...interlock.ClientOption) *interlock.Client {
	t.Helper()
	return t.open(10*time.Second, opts...)
}

func (t *trial) open(ttl time.Duration, opts ...interlock.ClientOption) *interlock.Client {
	t.Helper()
	d, err := t.world.Open(t.ctx)
	t.ok(err, "open a driver")
	if t.variant == repliesLost {
		d = &lossy{Driver: d, losses: &losses{}}
	}
	return t.over(d, ttl, opts...)
}

// nothingLeft makes sure that no ticket stands once the rule has released all.
func (t *trial) nothingLeft() {
	t.Helper()
	d, err := t.world.Open(t.ctx)
	t.ok(err, "open a driver")
	c := t.over(d, 10*limit)
	var left []string
	t.eventually("no ticket is left behind", func() bool {
		left = nil
		for q, err := range c.Admin().Queues(t.ctx, "") {
			if err != nil {
				left = append(left, err.Error())
				break
			}
			left = append(left, fmt.Sprintf("%+v", q))
		}
		return len(left) == 0
	}, func() string { return fmt.Sprint(left) })
}

func (t *trial) later(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closers = append(t.closers, f)
}

// parallel runs f n times at once and waits for all.
func (t *trial) parallel(n int, f func(i int) error) {
	t.Helper()
	if err := suite.Parallel("contender", n, f); err != nil {
		t.Fatalf("%v", err)
	}
}

// eventually waits until cond is true; the rest says what is there instead.
func (t *trial) eventually(what string, cond func() bool, instead ...func() string) {
	t.Helper()
	for !cond() {
		select {
		case <-t.ctx.Done():
			for _, f := range instead {
				what += "; instead " + f()
			}
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// result is what an acquire in another goroutine comes to.
type result struct {
	lease *interlock.Lease
	err   error
}

// async acquires in the background. A lease that nobody takes is released.
func (t *trial) async(l *interlock.Lock) <-chan result { return t.asyncWith(t.ctx, l) }

func (t *trial) asyncWith(ctx context.Context, l *interlock.Lock) <-chan result {
	return t.begin(func() (*interlock.Lease, error) { return l.Acquire(ctx) })
}

func (t *trial) begin(acquire func() (*interlock.Lease, error)) <-chan result {
	c := make(chan result, 1)
	t.calls.Go(func() {
		lease, err := acquire()
		c <- result{lease, err}
	})
	return c
}

// done runs f in the background.
func (t *trial) done(f func() error) <-chan error {
	c := make(chan error, 1)
	t.calls.Go(func() { c <- f() })
	return c
}

// get waits for an acquire that must succeed.
func (t *trial) get(c <-chan result, what string) *interlock.Lease {
	t.Helper()
	r := wait(t, c, what)
	t.ok(r.err, what)
	return r.lease
}

// wait waits for what must come.
func wait[T any](t *trial, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-t.ctx.Done():
		t.Fatalf("waited in vain: %s", what)
	}
	return v
}

// notYet makes sure that something does not come for a while.
func notYet[T any](t *trial, c <-chan T, what string) {
	t.Helper()
	t.settle()
	select {
	case <-c:
		t.Fatalf("too early: %s", what)
	case <-time.After(30 * time.Millisecond):
	}
}

// until waits for the channel to be closed, or for the end of the rule.
func (t *trial) until(c <-chan struct{}) {
	select {
	case <-c:
	case <-t.ctx.Done():
	}
}

// settle waits, in simulated time, until nothing moves any more.
func (t *trial) settle() {
	if t.Simulated {
		synctest.Wait()
	}
}

func (t *trial) acquire(l *interlock.Lock) *interlock.Lease {
	t.Helper()
	return t.get(t.async(l), "acquire "+l.Name())
}

func (t *trial) release(leases ...*interlock.Lease) {
	t.Helper()
	for _, l := range leases {
		t.ok(l.Release(), "release "+l.Name())
	}
}

// passOn releases the lease. Whoever waits for that is served, and releases too.
func (t *trial) passOn(lease *interlock.Lease, next <-chan result, what string) {
	t.Helper()
	t.release(lease)
	t.release(t.get(next, what))
}

// busy makes sure that the lock cannot be had now.
func (t *trial) busy(l *interlock.Lock, why string) {
	t.Helper()
	t.busyWith(t.ctx, l, why)
}

func (t *trial) busyWith(ctx context.Context, l *interlock.Lock, why string) {
	t.Helper()
	wait := 30 * time.Millisecond
	lease, err := l.With(interlock.Wait(wait)).Acquire(ctx)
	for ctx.Err() == nil && errors.Is(err, interlock.ErrUnavailable) { // the last reply was lost, or has not come yet on a busy machine
		wait *= 2
		lease, err = l.With(interlock.Wait(wait)).Acquire(ctx)
	}
	if err == nil {
		_ = lease.Release()
		t.Fatalf("%s can be had, although %s", l.Name(), why)
	}
	t.is(err, interlock.ErrBusy, l.Name()+", although "+why)
}

// waiting waits until so many wait at the backend.
func (t *trial) waiting(c *interlock.Client, name string, n int) []interlock.Member {
	t.Helper()
	var q interlock.Queue
	t.eventually(fmt.Sprintf("%d wait for %q", n, name), func() bool {
		q = t.look(c, name)
		return len(q.Waiters) == n
	}, func() string { return fmt.Sprintf("%+v", q) })
	return q.Waiters
}

// behind waits until an acquire waits behind the only other ticket, whose holder has
// the shortest TTL and may lose it before if this machine is slow.
func (t *trial) behind(next <-chan result, c *interlock.Client, name string) {
	t.Helper()
	t.eventually("the next one waits for "+name, func() bool {
		if len(next) > 0 {
			t.slow("the holder of %q has lost it before anything was done to it", name)
		}
		return len(t.look(c, name).Waiters) == 1
	})
}

// look reads a queue.
func (t *trial) look(c *interlock.Client, name string) (q interlock.Queue) {
	t.Helper()
	for found, err := range c.Admin().Follow(t.ctx, name) {
		t.ok(err, "look at "+name)
		q = found
		break
	}
	return q
}
