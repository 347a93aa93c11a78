package primitives

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const limit = suite.Limit

// rules is the suite.
var rules suite.Rules[*trial]

type rule = suite.Rule[*trial]

// A trial is a rule under check.
type trial struct {
	*suite.Trial
	Backend

	variant string
	world   drivertest.World
}

// The ways in which a rule is checked.
const (
	plain       = "plain"
	repliesLost = "replies lost"
)

func variants(r rule) []string {
	if r.Exact || r.Processes {
		return []string{plain}
	}
	return []string{plain, repliesLost}
}

// check checks the rule in a new world, and once more in another one if this
// machine or the backend paused for longer than the rule bears.
func check(tb testing.TB, r rule, b Backend, variant string) {
	tb.Helper()
	of := r.Check
	r.Check = func(t *trial) {
		if of(t); !t.Failed() {
			t.nothingLeft()
		}
	}
	r.Try(tb, 20, func(int) (*suite.Trial, *trial) {
		w := b.World(tb)
		f := r.Begin(tb, "interlock", b.Simulated, suite.Patience(b.Simulated))
		return f, &trial{Trial: f, Backend: b, variant: variant, world: w}
	})
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
	d, err := t.world.Open(t.Ctx)
	t.OK(err, "open a driver")
	if t.variant == repliesLost {
		d = suite.Hooked(d, (&losses{calls: map[string]int{}}).hook)
	}
	return t.over(d, ttl, opts...)
}

// nothingLeft makes sure that no ticket stands once the rule has released all.
func (t *trial) nothingLeft() {
	t.Helper()
	d, err := t.world.Open(t.Ctx)
	t.OK(err, "open a driver")
	c := t.over(d, 10*limit)
	var left []string
	t.Eventually("no ticket is left behind", func() bool {
		left = nil
		for q, err := range c.Admin().Queues(t.Ctx, "") {
			if err != nil {
				left = append(left, err.Error())
				break
			}
			left = append(left, fmt.Sprintf("%+v", q))
		}
		return len(left) == 0
	}, func() string { return fmt.Sprint(left) })
}

// result is what an acquire in another goroutine comes to.
type result struct {
	lease *interlock.Lease
	err   error
}

// async acquires in the background. A lease that nobody takes is released.
func (t *trial) async(l *interlock.Lock) <-chan result { return t.asyncWith(t.Ctx, l) }

func (t *trial) asyncWith(ctx context.Context, l *interlock.Lock) <-chan result {
	return t.begin(func() (*interlock.Lease, error) { return l.Acquire(ctx) })
}

func (t *trial) begin(acquire func() (*interlock.Lease, error)) <-chan result {
	c := make(chan result, 1)
	t.Calls.Go(func() {
		lease, err := acquire()
		c <- result{lease, err}
	})
	return c
}

// queued acquires in the background, as the n-th that waits at the backend, where c looks.
func (t *trial) queued(c *interlock.Client, n int, l *interlock.Lock) <-chan result {
	t.Helper()
	next := t.async(l)
	t.waiting(c, l.Name(), n)
	return next
}

// get waits for an acquire that must succeed.
func (t *trial) get(c <-chan result, what string) *interlock.Lease {
	t.Helper()
	r := wait(t, c, what)
	t.OK(r.err, "%s", what)
	return r.lease
}

// wait waits for what must come.
func wait[T any](t *trial, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-t.Ctx.Done():
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
	case <-t.Ctx.Done():
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
		t.OK(l.Release(), "release %s", l.Name())
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
	t.busyWith(t.Ctx, l, why)
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
	t.Is(err, interlock.ErrBusy, "%s, although %s", l.Name(), why)
}

// waiting waits until so many wait at the backend.
func (t *trial) waiting(c *interlock.Client, name string, n int) []interlock.Member {
	t.Helper()
	var q interlock.Queue
	t.Eventually(fmt.Sprintf("%d wait for %q", n, name), func() bool {
		q = t.look(c, name)
		return len(q.Waiters) == n
	}, func() string { return fmt.Sprintf("%+v", q) })
	return q.Waiters
}

// behind waits until an acquire waits behind the only other ticket, whose holder has
// the shortest TTL and may lose it before if this machine is slow.
func (t *trial) behind(next <-chan result, c *interlock.Client, name string) {
	t.Helper()
	t.Eventually("the next one waits for "+name, func() bool {
		if len(next) > 0 {
			t.Slow("the holder of %q has lost it before anything was done to it", name)
		}
		return len(t.look(c, name).Waiters) == 1
	})
}

// look reads a queue.
func (t *trial) look(c *interlock.Client, name string) (q interlock.Queue) {
	t.Helper()
	for found, err := range c.Admin().Follow(t.Ctx, name) {
		t.OK(err, "look at %s", name)
		q = found
		break
	}
	return q
}

// under runs f while it holds the lock.
func (t *trial) under(l *interlock.Lock, f func(*interlock.Lease) error) error {
	lease, err := l.Acquire(t.Ctx)
	if err != nil {
		return err
	}
	if err := f(lease); err != nil {
		return err
	}
	return lease.Release()
}

// told is for a client whose events of these kinds come.
func told(kinds ...interlock.EventKind) (<-chan interlock.Event, interlock.ClientOption) {
	events := make(chan interlock.Event, 1000)
	return events, interlock.Observe(func(_ context.Context, e interlock.Event) {
		if slices.Contains(kinds, e.Kind) {
			events <- e
		}
	})
}

// read reads a sequence beside the rule, until it ends. until waits for the value that is meant.
func read[V any](t *trial, all iter.Seq2[V, error]) (until func(what string, is func(V) bool) V, ended <-chan error) {
	values := make(chan V, 1000)
	ended = t.Done(func() error {
		for v, err := range all {
			if err != nil {
				return err
			}
			values <- v
		}
		return nil
	})
	return func(what string, is func(V) bool) (v V) {
		t.Helper()
		for v = wait(t, values, what); !is(v); v = wait(t, values, what) {
		}
		return v
	}, ended
}

// observe waits, with seen, until an observer has seen who leads.
func (t *trial) observe(all iter.Seq2[interlock.Member, error]) (seen func(note string), ended <-chan error) {
	until, ended := read(t, all)
	return func(note string) {
		t.Helper()
		until(fmt.Sprintf("the observer sees %q lead", note), func(m interlock.Member) bool { return m.Note == note })
	}, ended
}
