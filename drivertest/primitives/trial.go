// Package primitives checks what package interlock promises (mutexes, read-write
// locks, semaphores, elections, barriers, latches, values and what can be done
// with their leases) over a backend: package drivertest checks the backend, this
// package the two together. A backend's own test is
//
//	func TestPrimitives(t *testing.T) {
//		primitives.Run(t, primitives.Backend{
//			World: func(t testing.TB) drivertest.World { … },
//			TTL:   time.Second,
//		})
//	}
//
// beside a TestMain that calls drivertest.Main.
//
// Each rule is a subtest, and a failure prints the promise that was broken. Most
// rules are checked twice, the second time with replies of the backend that get
// lost. If the world has a URL, some rules make members: clients in processes of
// their own, which are stopped and killed.
package primitives

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// Backend says over what the primitives are checked. Shape and Small mean nothing here. Of the functions of a world
// Open is needed; Hang, if there is one, pauses the backend for a fifth of a TTL.
type Backend = drivertest.Backend

// Run checks every rule. The rules run beside each other, each in a world of its
// own.
func Run(t *testing.T, b Backend) {
	if b.World == nil || b.TTL <= 0 {
		t.Fatal("primitives: Backend needs World and TTL")
	}
	processes := !b.Simulated && b.World(t).URL != ""
	suite.Run(t, suite.Config{Package: "primitives", Processes: processes, Simulated: b.Simulated, Unsupported: b.Unsupported, Only: b.Only},
		rules, variants, func(tb testing.TB, r rule, variant string) { check(tb, r, b, variant) })
}

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
	machine *suite.Pulse // of this process; nil in simulated time
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
// machine or the backend paused for longer than the rule bears, with twice the TTL after each four times.
func check(tb testing.TB, r rule, b Backend, variant string) {
	tb.Helper()
	r.Try(tb, 20, func(n int) (*suite.Trial, *trial) {
		w := b.World(tb)
		b := b
		b.TTL <<= n / 4
		f := r.Begin(tb, "interlock", b.Simulated, suite.Patience(b.Simulated))
		t := &trial{Trial: f, Backend: b, variant: variant, world: w}
		if !b.Simulated {
			t.machine = t.Pulse(nil)
		}
		t.AtEnd = t.nothingLeft
		return f, t
	})
}

// client opens a client whose sessions outlive the rule: what it holds is not
// lost, and nothing is repaired by its heartbeat, which does not come.
func (t *trial) client(opts ...interlock.ClientOption) *interlock.Client {
	return t.open(10*limit, opts...)
}

func (t *trial) pair() (a, b *interlock.Client) { return t.client(), t.client() }

// beating opens a client with a heartbeat that comes several times within the
// limit: what others ask of it reaches it with the next one at the latest, and so
// does the end of a ticket that was in front of its own.
func (t *trial) beating(opts ...interlock.ClientOption) *interlock.Client {
	return t.open(10*time.Second, opts...)
}

func (t *trial) driver() driver.Driver {
	d, err := t.world.Open(t.Ctx)
	t.OK(err, "open a driver")
	return d
}

func (t *trial) open(ttl time.Duration, opts ...interlock.ClientOption) *interlock.Client {
	d := t.driver()
	if t.variant == repliesLost {
		d = suite.Hooked(d, (&losses{calls: map[string]int{}}).hook)
	}
	return t.over(d, ttl, opts...)
}

// nothingLeft makes sure that no ticket stands once the rule has released all.
func (t *trial) nothingLeft() {
	c := t.over(t.driver(), 10*limit)
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
	next := t.async(l)
	t.waiting(c, l.Name(), n)
	return next
}

// get waits for an acquire that must succeed.
func (t *trial) get(c <-chan result, what string) *interlock.Lease {
	r := wait(t, c, what)
	t.OK(r.err, "%s", what)
	return r.lease
}

// wait waits for what must come.
func wait[T any](t *trial, c <-chan T, what string) (v T) {
	select {
	case v = <-c:
	case <-t.Ctx.Done():
		t.Fatalf("waited in vain: %s", what)
	}
	return v
}

// notYet makes sure that something does not come for a while.
func notYet[T any](t *trial, c <-chan T, what string) {
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
	return t.get(t.async(l), "acquire "+l.Name())
}

func (t *trial) release(leases ...*interlock.Lease) {
	for _, l := range leases {
		err := l.Release()
		if errors.Is(err, interlock.ErrLost) && t.machine != nil && t.machine.Longest() > t.TTL/5 {
			t.Slow("this process stood still for %v: release %s: %v", t.machine.Longest(), l.Name(), err)
		}
		t.OK(err, "release %s", l.Name())
	}
}

// passOn releases the lease. Whoever waits for that is served, and releases too.
func (t *trial) passOn(lease *interlock.Lease, next <-chan result, what string) {
	t.release(lease)
	t.release(t.get(next, what))
}

// busy makes sure that the lock cannot be had now.
func (t *trial) busy(l *interlock.Lock, why string) {
	t.busyWith(t.Ctx, l, why)
}

func (t *trial) busyWith(ctx context.Context, l *interlock.Lock, why string) {
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
	t.Eventually("the next one waits for "+name, func() bool {
		if len(next) > 0 {
			t.Slow("the holder of %q has lost it before anything was done to it", name)
		}
		return len(t.look(c, name).Waiters) == 1
	})
}

// look reads a queue.
func (t *trial) look(c *interlock.Client, name string) (q interlock.Queue) {
	for found, err := range c.Admin().Follow(t.Ctx, name) {
		t.OK(err, "look at %s", name)
		q = found
		break
	}
	return q
}

// evict takes a lease away. A lost reply is repeated, and finds it gone.
func (t *trial) evict(by *interlock.Client, l *interlock.Lease, force bool) {
	err := by.Admin().Evict(t.Ctx, l.Name(), l.ID(), force)
	if !errors.Is(err, interlock.ErrLost) || t.variant == plain {
		t.OK(err, "Evict")
	}
}

// A work is a function that runs under a lock.
type work struct {
	lease *interlock.Lease
	over  chan struct{} // closed by end
	end   func()
	done  <-chan error // the error of Do; nil if the function has panicked with halfDone
}

const halfDone = "half done"

// work has Do run f, which has begun when it returns.
func (t *trial) work(l *interlock.Lock, f func(ctx context.Context, over <-chan struct{}) error) *work {
	w := &work{over: make(chan struct{})}
	w.end = sync.OnceFunc(func() { close(w.over) })
	t.Later(w.end)
	begun := make(chan struct{})
	w.done = t.Done(func() error {
		defer func() {
			if p := recover(); p != nil && p != halfDone {
				panic(p)
			}
		}()
		return l.Do(t.Ctx, func(ctx context.Context) error {
			w.lease = interlock.LeaseFrom(ctx)
			close(begun)
			return f(ctx, w.over)
		})
	})
	wait(t, begun, "the function of Do begins")
	return w
}

// fails is the work of one that dies, or does not.
func (t *trial) fails(dies bool) func(context.Context, <-chan struct{}) error {
	return func(_ context.Context, over <-chan struct{}) error {
		if t.until(over); dies {
			panic(halfDone)
		}
		return nil
	}
}

// under runs f while it holds the lock.
func (t *trial) under(l *interlock.Lock, f func(*interlock.Lease)) {
	lease := t.acquire(l)
	f(lease)
	t.release(lease)
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

// A reader reads a sequence beside the rule, until that ends.
type reader[V any] struct {
	t      *trial
	what   string
	values chan V
	stop   context.CancelFunc // of its context
	ended  <-chan error
}

func read[V any](t *trial, what string, all func(context.Context) iter.Seq2[V, error]) *reader[V] {
	ctx, stop := context.WithCancel(t.Ctx)
	r := &reader[V]{t: t, what: what, values: make(chan V, 1000), stop: stop}
	r.ended = t.Done(func() error {
		for v, err := range all(ctx) {
			if err != nil {
				return err
			}
			r.values <- v
		}
		return nil
	})
	return r
}

// until waits for the value that is meant.
func (r *reader[V]) until(is func(V) bool, shows string, args ...any) (v V) {
	shows = r.what + " shows " + fmt.Sprintf(shows, args...)
	for v = wait(r.t, r.values, shows); !is(v); v = wait(r.t, r.values, shows) {
	}
	return v
}

// ends makes sure that the sequence ends with its context, without an error.
func (r *reader[V]) ends() {
	r.stop()
	r.t.OK(wait(r.t, r.ended, r.what+" ends with its context"), "%s", r.what)
}

// follow reads the states of a queue.
func (t *trial) follow(c *interlock.Client, name string) *reader[interlock.Queue] {
	return read(t, "Follow", func(ctx context.Context) iter.Seq2[interlock.Queue, error] {
		return c.Admin().Follow(ctx, name)
	})
}

// observe reads who leads. seen waits until it has seen that leader.
func (t *trial) observe(e *interlock.Election) (seen func(note string), end func()) {
	r := read(t, "Observe", e.Observe)
	return func(note string) {
		r.until(func(m interlock.Member) bool { return m.Note == note }, "that %q leads", note)
	}, r.ends
}

// over makes a client of the driver, which is closed with the rule.
func (t *trial) over(d driver.Driver, ttl time.Duration, opts ...interlock.ClientOption) *interlock.Client {
	c, err := interlock.New(t.Ctx, d, append([]interlock.ClientOption{interlock.TTL(ttl)}, opts...)...)
	if err != nil {
		d.Close()
		t.Fatalf("open a client: %v", err)
	}
	t.Later(func() {
		if err := c.Close(); err != nil && !errors.Is(err, interlock.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

var errReply = errors.New("primitives: the reply was lost")

// losses are the replies that get lost: calls have their effect, and return an
// error. Of each method the first reply is lost and then every third, so that
// a repetition is answered.
type losses struct {
	mu    sync.Mutex
	calls map[string]int
}

// hook loses the reply, or not. A call that has ended with its context has none.
func (l *losses) hook(ctx context.Context, method string, call func(context.Context) error) error {
	err := call(ctx)
	if method == "Open" || method == "Renew" || method == "Close" {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.calls[method]
	l.calls[method]++
	if n%3 == 0 && ctx.Err() == nil && !driver.IsPermanent(err) {
		return errReply
	}
	return err
}
