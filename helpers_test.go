package interlock_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/chaos"
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

// sides are when a call fails: before it has had its effect, or after that.
var sides = map[string]func(*memlock.Faults, string, int) memlock.Point{
	"before": (*memlock.Faults).Before, "after": (*memlock.Faults).After,
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

func trio(t testing.TB) (a, b, c member) {
	w := memlock.NewWorld()
	return join(t, w), join(t, w), join(t, w)
}

// client makes a client of any driver, which is closed with the test.
func client(t testing.TB, d driver.Driver, opts ...interlock.ClientOption) *interlock.Client {
	t.Helper()
	c := errtest.Must(interlock.New(ctx, d, opts...))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// bind makes a context that carries a lease until the test ends.
func bind(t testing.TB, l *interlock.Lease) context.Context {
	bound, free := l.Bind(ctx)
	t.Cleanup(free)
	return bound
}

// lasting is a context that ends after a time, or with the test.
func lasting(t testing.TB, d time.Duration) context.Context {
	ends, cancel := context.WithTimeout(ctx, d)
	t.Cleanup(cancel)
	return ends
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	fatalIf(t, !errors.Is(err, want), "got %v, want %v", err, want)
}

func acquire(t testing.TB, l *interlock.Lock) *interlock.Lease {
	t.Helper()
	return errtest.Must(l.Acquire(ctx))(t)
}

// result is what an acquire in another goroutine comes to.
type result struct {
	lease *interlock.Lease
	err   error
	at    time.Time
}

// async acquires in the background. It has its place in the line, or the lock, unless something keeps it up.
func async(ctx context.Context, l *interlock.Lock) <-chan result { return begun(ctx, l.Acquire) }

// begun makes a call in the background, and returns when nothing moves any more.
func begun(ctx context.Context, acquire func(context.Context) (*interlock.Lease, error)) <-chan result {
	c := make(chan result, 1)
	go func() {
		lease, err := acquire(ctx)
		c <- result{lease, err, time.Now()}
	}()
	synctest.Wait()
	return c
}

// endOf is the error with which a sequence ends.
func endOf[V any](all iter.Seq2[V, error]) (last error) {
	for _, err := range all {
		last = err
	}
	return last
}

// does makes one that returns an error alone.
func does(call func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- call() }()
	synctest.Wait()
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
	chaos.Witness
	t      testing.TB
	grants atomic.Int64
}

func (r *referee) enter(l *interlock.Lease) {
	holds, err := r.Enter(l)
	errtest.Is(r.t, err, nil)
	if holds {
		r.grants.Add(1)
	}
}

// hold acquires the lock, and holds it for so long under the eyes of the referee. The error is that of its release.
func (r *referee) hold(l *interlock.Lock, d time.Duration) error {
	lease, err := l.Acquire(ctx)
	if err != nil {
		r.t.Error(err)
		return err
	}
	time.Sleep(time.Nanosecond) // the news of a session's end has arrived then
	r.enter(lease)
	time.Sleep(d)
	r.Leave(lease)
	err = lease.Release()
	mayBeLost(r.t, err)
	return err
}

// mayBeLost makes sure of the error of a release: that it says no more than that the lock was lost, if anything.
func mayBeLost(t testing.TB, err error) {
	t.Helper()
	failIf(t, err != nil && !errors.Is(err, interlock.ErrLost), "%v", err)
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

// failIf fails the test if what is said is so.
func failIf(t testing.TB, so bool, format string, args ...any) {
	t.Helper()
	if so {
		t.Errorf(format, args...)
	}
}

// fatalIf ends it, too.
func fatalIf(t testing.TB, so bool, format string, args ...any) {
	t.Helper()
	if so {
		t.Fatalf(format, args...)
	}
}

// equal fails the test unless it got what it wants.
func equal[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	failIf(t, got != want, what+": %v, want %v", append(args, got, want)...)
}

// within makes sure that what began then has taken no longer.
func within(t testing.TB, began time.Time, most time.Duration, what string, args ...any) {
	t.Helper()
	d := time.Since(began)
	failIf(t, d > most, what+" %v, not %v", append(args, d, most)...)
}

// now is a result that is there once nothing moves any more.
func now(t testing.TB, c <-chan result, missing string) result {
	t.Helper()
	r, done := got(c)
	fatalIf(t, !done, "%s", missing)
	ok(t, r.err)
	return r
}

// notYet makes sure that none is.
func notYet(t testing.TB, c <-chan result, broken string) {
	t.Helper()
	r, done := got(c)
	fatalIf(t, done, "%s: %v", broken, r.err)
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
	equal(t, l.Inherited(), want, "inherited")
}

// inherited releases the lease of an acquire that has to succeed, and makes sure of what it is told of the last holder.
func inherited(t testing.TB, c <-chan result, want bool) {
	t.Helper()
	r := served(t, c)
	inherits(t, r.lease, want)
	ok(t, r.lease.Release())
}

// holds makes sure of whether a context carries a lease of the lock.
func holds(t testing.TB, l *interlock.Lock, held context.Context, want bool) {
	t.Helper()
	_, got := l.Held(held)
	failIf(t, got != want, "%s: Held says %v", l.Name(), got)
}

// took makes sure that something has taken so long.
func took(t testing.TB, d, least, most time.Duration, what string) {
	t.Helper()
	failIf(t, d < least || d > most, "%s %v, want %v to %v", what, d, least, most)
}

// evict evicts the first holder of a lock.
func evict(t testing.TB, by member, name string, force bool) {
	t.Helper()
	ok(t, by.Admin().Evict(ctx, name, holder(t, by, name).ID, force))
}

func holder(t testing.TB, m member, name string) interlock.Member {
	t.Helper()
	return errtest.Must(m.Admin().Queue(ctx, name))(t).Holders[0]
}

// costs makes sure that a client has needed no more exchanges since there were so many.
func costs(t testing.TB, m member, before, most uint64) {
	t.Helper()
	n := m.Admin().Exchanges() - before
	failIf(t, n > most, "%d exchanges, not %d", n, most)
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
