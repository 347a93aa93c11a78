package interlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

const ttl = 15 * time.Second

var ctx = context.Background()

// simulated runs the test in simulated time. It fails if a goroutine is left
// when the test has ended and its clients are closed, and if the test waits in
// vain: see the package.
func simulated(t *testing.T, f func(*testing.T)) {
	t.Helper()
	bubble.Run(t, f)
}

// simulatedAs does so in a test of that name.
func simulatedAs(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { simulated(t, f) })
}

// member is a client together with the driver that its faults are asked of.
type member struct {
	*interlock.Client
	d *memlock.Driver
}

func (m member) faults() *memlock.Faults { return m.d.Faults() }

// join makes a client of the world, which is closed with the test.
func join(t testing.TB, w *memlock.World, opts ...interlock.ClientOption) member {
	t.Helper()
	d := w.Driver()
	c := errtest.Must(interlock.New(context.Background(), d, opts...))(t)
	t.Cleanup(func() {
		d.Faults().Clear()
		d.Faults().Heal()
		if err := c.Close(); err != nil && !errors.Is(err, interlock.ErrClosed) {
			t.Error(err)
		}
	})
	return member{c, d}
}

// wrapped is a backend whose sessions are those that wrap makes of them.
type wrapped struct {
	*memlock.Driver
	wrap func(driver.Session) driver.Session
}

func (d wrapped) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	s, err := d.Driver.Open(ctx, o)
	if err == nil {
		s.Session = d.wrap(s.Session)
	}
	return s, err
}

// joins is a session in which a Join comes to what the function says.
type joins struct {
	driver.Session
	join func() (driver.Ticket, error)
}

func (s joins) Join(context.Context, driver.Request) (driver.Ticket, error) { return s.join() }

func pair(t testing.TB, opts ...interlock.ClientOption) (a, b member) {
	w := memlock.NewWorld()
	return join(t, w, opts...), join(t, w, opts...)
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func acquire(t testing.TB, l *interlock.Lock) *interlock.Lease {
	t.Helper()
	lease := errtest.Must(l.Acquire(ctx))(t)
	return lease
}

// result is what an acquire in another goroutine comes to.
type result struct {
	lease *interlock.Lease
	err   error
	at    time.Time
}

// async acquires in the background.
func async(ctx context.Context, l *interlock.Lock) <-chan result {
	c := make(chan result, 1)
	go func() {
		lease, err := l.Acquire(ctx)
		c <- result{lease, err, time.Now()}
	}()
	return c
}

// turn waits for an acquire that has to succeed, and releases.
func turn(t testing.TB, c <-chan result) {
	t.Helper()
	(<-c).release(t)
}

func (r result) release(t testing.TB) {
	t.Helper()
	ok(t, r.err)
	ok(t, r.lease.Release())
}

// got reports whether the result is there once nothing moves any more.
func got(c <-chan result) (result, bool) {
	synctest.Wait()
	select {
	case r := <-c:
		return r, true
	default:
		return result{}, false
	}
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// referee notices when two hold what one may hold.
type referee struct {
	t      testing.TB
	mu     sync.Mutex
	holder *interlock.Lease
	token  uint64
	grants int
}

func (r *referee) enter(l *interlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Err() != nil {
		return // lost on the way
	}
	if r.holder != nil && r.holder.Err() == nil {
		r.t.Errorf("two holders: tokens %d and %d", r.holder.Token(), l.Token())
	}
	if l.Token() <= r.token || l.Token() >= 1<<63 {
		r.t.Errorf("token %d after %d", l.Token(), r.token)
	}
	r.holder, r.token = l, l.Token()
	r.grants++
}

func (r *referee) leave(l *interlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder == l {
		r.holder = nil
	}
}

func (r *referee) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants
}

// nothingLeft asserts that the clients remember nothing and that no ticket
// stands in the world.
func nothingLeft(t testing.TB, members ...member) {
	t.Helper()
	synctest.Wait()
	for _, m := range members {
		if tickets, queues, followers := m.Sizes(); tickets+queues+followers > 0 {
			t.Errorf("left behind: %d tickets, %d queues, %d followers", tickets, queues, followers)
		}
		for q, err := range m.Admin().Queues(ctx, "") {
			ok(t, err)
			t.Errorf("left behind: %+v", q)
		}
	}
}

// errOf is the error of a call that returns something else, too.
func errOf[T any](_ T, err error) error { return err }

// alone is a test with one client. Nothing is left at its end.
func alone(f func(t *testing.T, a member)) func(*testing.T) {
	return func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		f(t, a)
		nothingLeft(t, a)
	}
}

// both is one with two clients of a world.
func both(f func(t *testing.T, a, b member)) func(*testing.T) {
	return func(t *testing.T) {
		a, b := pair(t)
		f(t, a, b)
		nothingLeft(t, a, b)
	}
}

// two is one with clients of two worlds, and others of the same worlds.
func two(f func(t *testing.T, a, b, otherA, otherB member)) func(*testing.T) {
	return func(t *testing.T) {
		a, otherA := pair(t)
		b, otherB := pair(t)
		f(t, a, b, otherA, otherB)
		nothingLeft(t, a, b, otherA, otherB)
	}
}

// within makes sure that what began then has taken no longer.
func within(t testing.TB, began time.Time, most time.Duration, what string) {
	t.Helper()
	if d := time.Since(began); d > most {
		t.Errorf("%s %v, not %v", what, d, most)
	}
}

// now is a result that is there once nothing moves any more.
func now(t testing.TB, c <-chan result, missing string) result {
	t.Helper()
	r, done := got(c)
	if !done {
		t.Fatal(missing)
	}
	ok(t, r.err)
	return r
}

// notYet makes sure that none is.
func notYet(t testing.TB, c <-chan result, broken string) {
	t.Helper()
	if r, done := got(c); done {
		t.Fatalf("%s: %v", broken, r.err)
	}
}

// served waits for an acquire that has to succeed.
func served(t testing.TB, c <-chan result) result {
	t.Helper()
	r := <-c
	ok(t, r.err)
	return r
}

// inherits makes sure of what a lease is told about the last holder.
func inherits(t testing.TB, l *interlock.Lease, want bool) {
	t.Helper()
	if l.Inherited() != want {
		t.Errorf("inherited: %v, want %v", !want, want)
	}
}

// costs makes sure that a client has needed no more exchanges since there were so many.
func costs(t testing.TB, m member, before, most uint64) {
	t.Helper()
	if n := m.Admin().Exchanges() - before; n > most {
		t.Errorf("%d exchanges, not %d", n, most)
	}
}

// stopped is a driver whose clock can jump, while timers do not fire: what a
// process sees that was stopped, or whose machine was suspended.
type stopped struct {
	*memlock.Driver
	ahead atomic.Int64
}

func (d *stopped) jump(by time.Duration) { d.ahead.Add(int64(by)) }

func (d *stopped) Now() driver.Instant {
	return d.Driver.Now().Add(time.Duration(d.ahead.Load()))
}
