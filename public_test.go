package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// A client outlives its session: a TryAcquire that finds its session over, or its ticket gone,
// tries again with another ticket.
func TestATryOutlivesItsSession(t *testing.T) {
	for name, l := range map[string]func(c *interlock.Client) *interlock.Lock{
		"shared": func(c *interlock.Client) *interlock.Lock { return c.Mutex("m") },
		"strict": func(c *interlock.Client) *interlock.Lock { return c.Mutex("m", interlock.StrictOrder()) },
		"fixed":  func(c *interlock.Client) *interlock.Lock { return c.Mutex("m", interlock.ExpiresAfter(time.Hour)) },
		"reader": func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m").Reader() },
	} {
		for _, said := range []error{driver.ErrSession, driver.ErrGone} {
			simulatedAs(t, fmt.Sprint(name, " ", said), func(t *testing.T) {
				a, b := pair(t)
				a.faults().Before("Join", 1).Refuse(said)
				lease := errtest.Must(l(a.Client).TryAcquire(ctx))(t)
				ok(t, lease.Release())

				a.faults().Expire()
				lease = errtest.Must(l(a.Client).TryAcquire(ctx))(t)
				_, err := l(b.Client).With(interlock.Wait(0)).Acquire(ctx)
				if name != "reader" {
					wantErr(t, err, interlock.ErrBusy)
				}
				ok(t, lease.Release())
			})
		}
	}
}

// A grant that has run out before TryAcquire returns, since the process was stopped, is not
// an error of TryAcquire: it tries again, and finds at most its own ticket in the way.
func TestATryOutlivesAStop(t *testing.T) {
	for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}} {
		for k := 1; k <= 8; k++ {
			simulated(t, func(t *testing.T) {
				d := &lateLook{Driver: memlock.New()}
				c := client(t, d)
				synctest.Wait()
				d.looks.Store(int64(k))
				lease, err := c.Mutex("m", opts...).TryAcquire(ctx)
				switch {
				case err == nil:
					_ = lease.Release()
				case !errors.Is(err, interlock.ErrBusy):
					t.Errorf("look %d at the clock is late: %v", k, err)
				}
			})
		}
	}
}

// lateLook has one look at the clock come a TTL late.
type lateLook struct {
	*memlock.Driver
	looks atomic.Int64
}

func (d *lateLook) Now() driver.Instant {
	if d.looks.Add(-1) == 0 {
		return d.Driver.Now().Add(ttl)
	}
	return d.Driver.Now()
}

// A TryAcquire that has no answer in time says so, whatever its driver makes of the end of
// its context.
func TestATryWithoutAnAnswerSaysSo(t *testing.T) {
	simulated(t, func(t *testing.T) {
		c := client(t, wrapped{memlock.New(), func(s driver.Session) driver.Session {
			return joins{s, func() (driver.Ticket, error) { // it takes longer than it may, and does not look at its context
				time.Sleep(ttl)
				return driver.Ticket{}, errors.New("no answer")
			}}
		}})
		for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}} {
			alive, cancel := context.WithCancel(ctx)
			err := errOf(c.Mutex("m", opts...).TryAcquire(alive))
			wantErr(t, err, context.DeadlineExceeded)
			errtest.Says(t, err, "interlock: acquire m: the backend did not answer within 5s: ")
			cancel()
		}
	})
}

// A wait that ends before the backend has answered says what the driver knows of the reason.
func TestAWaitWithoutAnAnswerSaysWhy(t *testing.T) {
	simulated(t, func(t *testing.T) {
		c := client(t, wrapped{memlock.New(), func(s driver.Session) driver.Session {
			return joins{s, func() (driver.Ticket, error) {
				time.Sleep(ttl)
				return driver.Ticket{}, fmt.Errorf("the file is locked by process 7: %w", context.DeadlineExceeded)
			}}
		}})
		short, cancel := context.WithTimeout(ctx, ttl/2)
		defer cancel()
		err := errOf(c.Mutex("m").Acquire(short))
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, interlock.ErrUnavailable)
		errtest.Says(t, err, "interlock: acquire m: context deadline exceeded (the backend has not answered: the file is locked by process 7)")
	})
}

// A lease of ExpiresAfter outlives its session. A Downgrade that finds that out says that it is of
// another session, and loses nothing.
func TestADowngradeOfAHoldWhoseSessionIsOver(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.RWMutex("m", interlock.ExpiresAfter(time.Hour)).Writer())
		a.faults().Before("Shrink", 1).Refuse(driver.ErrSession)
		for range 2 {
			wantErr(t, lease.Downgrade(ctx), interlock.ErrInvalid)
			ok(t, lease.Err())
			a.faults().Clear()
			a.faults().Expire()
			synctest.Wait()
		}
		ok(t, lease.Release())
	}))
}

// Whatever a driver says of its sessions and tickets, a caller is told in the errors of this
// package, and waits no longer than its context lasts.
func TestNoErrorOfADriverLeaksOut(t *testing.T) {
	type call struct {
		method string
		do     func(ctx context.Context, t *testing.T, a member, refuse func()) error
	}
	lease := func(l func(a member) *interlock.Lock, do func(context.Context, *interlock.Lease) error) func(context.Context, *testing.T, member, func()) error {
		return func(ctx context.Context, t *testing.T, a member, refuse func()) error {
			held := acquire(t, l(a))
			refuse()
			return do(ctx, held)
		}
	}
	other := func(do func(context.Context, member) error) func(context.Context, *testing.T, member, func()) error {
		return func(ctx context.Context, t *testing.T, a member, refuse func()) error {
			refuse()
			return do(ctx, a)
		}
	}
	mutex := func(a member) *interlock.Lock { return a.Mutex("m") }
	hold := func(a member) *interlock.Lock { return a.Mutex("m", interlock.ExpiresAfter(time.Hour)) }
	atLeast := func(a member) *interlock.Lock { return a.Mutex("m", interlock.AtLeast(time.Hour)) }
	writer := func(a member) *interlock.Lock { return a.RWMutex("m").Writer() }
	holdWriter := func(a member) *interlock.Lock { return a.RWMutex("m", interlock.ExpiresAfter(time.Hour)).Writer() }
	release := func(_ context.Context, l *interlock.Lease) error { return l.Release() }
	downgrade := func(ctx context.Context, l *interlock.Lease) error { return l.Downgrade(ctx) }
	value := func(a member) *interlock.Value[int] { return interlock.NewValue[int](a.Client, "v") }
	leaves := func(ctx context.Context, t *testing.T, a member, refuse func()) error {
		d := a.DoubleBarrier("d", 1)
		l := errtest.Must(d.Enter(ctx))(t)
		refuse()
		return d.Leave(ctx, l)
	}
	leads := other(func(ctx context.Context, a member) error { return errOf(a.Election("e").Leader(ctx)) })
	const someID = "00112233445566778899aabbccddeeff"
	calls := map[string]call{
		"Acquire":                 {"Join", other(func(ctx context.Context, a member) error { return errOf(mutex(a).Acquire(ctx)) })},
		"TryAcquire":              {"Join", other(func(ctx context.Context, a member) error { return errOf(mutex(a).TryAcquire(ctx)) })},
		"TryAcquire ExpiresAfter": {"Join", other(func(ctx context.Context, a member) error { return errOf(hold(a).TryAcquire(ctx)) })},
		"Acquire Wait": {"Join", other(func(ctx context.Context, a member) error {
			return errOf(a.Mutex("m", interlock.Wait(time.Second)).Acquire(ctx))
		})},
		"Acquire Wait 0": {"Join", other(func(ctx context.Context, a member) error { return errOf(a.Mutex("m", interlock.Wait(0)).Acquire(ctx)) })},
		"Do": {"Join", other(func(ctx context.Context, a member) error {
			return mutex(a).Do(ctx, func(context.Context) error { return nil })
		})},
		"Campaign": {"Join", other(func(ctx context.Context, a member) error { return errOf(a.Election("e").Campaign(ctx, "")) })},
		"Lead": {"Join", other(func(ctx context.Context, a member) error {
			return a.Election("e").Lead(ctx, "", func(context.Context) error { return nil })
		})},
		"Enter":         {"Join", other(func(ctx context.Context, a member) error { return errOf(a.DoubleBarrier("d", 2).Enter(ctx)) })},
		"Enter, queue":  {"Follow", other(func(ctx context.Context, a member) error { return errOf(a.DoubleBarrier("d", 1).Enter(ctx)) })},
		"Enter, round":  {"Load", other(func(ctx context.Context, a member) error { return errOf(a.DoubleBarrier("d", 1).Enter(ctx)) })},
		"Enter, swap":   {"Swap", other(func(ctx context.Context, a member) error { return errOf(a.DoubleBarrier("d", 1).Enter(ctx)) })},
		"Leave":         {"Leave", leaves},
		"Leave, round":  {"Load", leaves},
		"Leave, queue":  {"Follow", leaves},
		"Leave, swap":   {"Swap", leaves},
		"Leader":        {"Load", leads},
		"Leader, queue": {"Follow", leads},
		"SetValue": {"Swap", func(ctx context.Context, t *testing.T, a member, refuse func()) error {
			l := acquire(t, a.Election("e").Candidate("old"))
			refuse()
			return a.Election("e").SetValue(ctx, l, "new")
		}},
		"Queue":                  {"Follow", other(func(ctx context.Context, a member) error { return errOf(a.Admin().Queue(ctx, "m")) })},
		"Release":                {"Leave", lease(mutex, release)},
		"Release ExpiresAfter":   {"Leave", lease(hold, release)},
		"Release AtLeast":        {"Keep", lease(atLeast, release)},
		"Downgrade":              {"Shrink", lease(writer, downgrade)},
		"Downgrade ExpiresAfter": {"Shrink", lease(holdWriter, downgrade)},
		"Extend":                 {"Keep", lease(hold, func(ctx context.Context, l *interlock.Lease) error { return l.Extend(ctx, time.Minute) })},
		"Err": {"Renew", lease(mutex, func(ctx context.Context, l *interlock.Lease) error {
			select {
			case <-l.Done():
			case <-ctx.Done():
			}
			return l.Err()
		})},
		"Bind": {"Renew", lease(mutex, func(ctx context.Context, l *interlock.Lease) error {
			held, free := l.Bind(ctx)
			defer free()
			<-held.Done()
			return context.Cause(held)
		})},
		"Adopt":           {"Follow", other(func(ctx context.Context, a member) error { return errOf(a.Adopt(ctx, "m", someID)) })},
		"Revoke":          {"Ask", other(func(ctx context.Context, a member) error { return a.Admin().Revoke(ctx, "m", someID) })},
		"Evict":           {"Ask", other(func(ctx context.Context, a member) error { return a.Admin().Evict(ctx, "m", someID, false) })},
		"RaiseToken":      {"Raise", other(func(ctx context.Context, a member) error { return a.Admin().RaiseToken(ctx, "m", 1) })},
		"RaiseTokens":     {"Raise", other(func(ctx context.Context, a member) error { return a.Admin().RaiseTokens(ctx, 1) })},
		"Queues":          {"Queues", other(func(ctx context.Context, a member) error { return endOf(a.Admin().Queues(ctx, "")) })},
		"Stored":          {"Cells", other(func(ctx context.Context, a member) error { return endOf(a.Admin().Stored(ctx, "")) })},
		"Follow":          {"Follow", other(func(ctx context.Context, a member) error { return endOf(a.Admin().Follow(ctx, "m")) })},
		"Observe":         {"Follow", other(func(ctx context.Context, a member) error { return endOf(a.Election("e").Observe(ctx)) })},
		"Latch.Set":       {"Swap", other(func(ctx context.Context, a member) error { return errOf(a.Latch("l").Set(ctx, 1)) })},
		"Latch.CountDown": {"Load", other(func(ctx context.Context, a member) error { return errOf(a.Latch("l").CountDown(ctx)) })},
		"Latch.Wait":      {"Watch", other(func(ctx context.Context, a member) error { return a.Latch("l").Wait(ctx) })},
		"Barrier.Set":     {"Swap", other(func(ctx context.Context, a member) error { return a.Barrier("b").Set(ctx) })},
		"Barrier.IsSet":   {"Load", other(func(ctx context.Context, a member) error { return errOf(a.Barrier("b").IsSet(ctx)) })},
		"Value.Get":       {"Load", other(func(ctx context.Context, a member) error { return errOf(value(a).Get(ctx)) })},
		"Value.Set":       {"Swap", other(func(ctx context.Context, a member) error { return errOf(value(a).Set(ctx, 1, 0)) })},
		"Value.Delete":    {"Swap", other(func(ctx context.Context, a member) error { return value(a).Delete(ctx, 0) })},
		"Value.Watch":     {"Watch", other(func(ctx context.Context, a member) error { return endOf(value(a).Watch(ctx)) })},
	}
	for name, c := range calls {
		for _, said := range []error{driver.ErrSession, driver.ErrGone, driver.ErrConflict} {
			for _, k := range []int{1, 0} { // once, or always
				if said == driver.ErrConflict && (c.method != "Swap" || name == "Value.Set" || name == "Value.Delete") {
					continue // only Swap says so, and only these two pass it on
				}
				simulatedAs(t, fmt.Sprint(name, " ", said, " ", k), func(t *testing.T) {
					a := join(t, memlock.NewWorld())
					ctx := lasting(t, 3*ttl)
					err := c.do(ctx, t, a, func() { a.faults().Before(c.method, k).Refuse(said) })
					for _, leak := range []error{driver.ErrSession, driver.ErrGone, driver.ErrConflict} {
						failIf(t, errors.Is(err, leak), "%v is told to the caller: %v", leak, err)
					}
					a.faults().Clear()
				})
			}
		}
	}
}

// Who asks a holder that is not there is told so, and not of a lease that was lost.
func TestWhoIsNotThereCannotBeAsked(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		const id = "00112233445566778899aabbccddeeff"
		for op, err := range map[string]error{"revoke": a.Admin().Revoke(ctx, "m", id+".7"), "evict": a.Admin().Evict(ctx, "m", id, true)} {
			wantErr(t, err, interlock.ErrLost)
			equal(t, err.Error(), "interlock: "+op+" m: lease lost: no holder and no waiter has the ID \""+id+"\"", "it says")
		}
	}))
}

// The text of an error is one line, whatever the name. One with printable characters only is
// shown as it is.
func TestAnErrorIsOneLine(t *testing.T) {
	c := join(t, memlock.NewWorld())
	for name, shown := range map[string]string{
		"a\nb": `"a\nb"`, "a\x1b[2Jb": `"a\x1b[2Jb"`, "a\xffb": `"a\xffb"`, "a\u2028b": `"a\u2028b"`,
		"jobs/nächtlich x": "jobs/nächtlich x",
	} {
		_, err := c.Adopt(ctx, name, "00112233445566778899aabbccddeeff")
		want := "interlock: adopt " + shown + ": "
		failIf(t, !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n"), "%q: %s", name, err)
	}
}

// What a driver says in several lines, such as a server with several addresses, is one line in
// the errors of this package.
func TestAnErrorOfADriverIsOneLine(t *testing.T) {
	several := errors.Join(errors.New("dial 10.0.0.1: refused"), errors.New("dial 10.0.0.2: refused"))
	simulated(t, alone(func(t *testing.T, a member) {
		for method, call := range map[string]func() error{
			"Join": func() error { return errOf(a.Mutex("m").Acquire(ctx)) },
			"Load": func() error { return errOf(interlock.NewValue[int](a.Client, "v").Get(ctx)) },
			"Open": func() error { return errOf(interlock.New(ctx, a.d)) },
		} {
			a.faults().Before(method, 1).Refuse(several)
			err := call()
			failIf(t, err == nil || strings.Contains(err.Error(), "\n") || !errors.Is(err, several), "%s: %v", method, err)
		}
		v := interlock.NewValue[[]byte](a.Client, "v")
		errtest.Must(v.Set(ctx, []byte("no number"), 0))(t)
		err := errOf(interlock.NewValue[int](a.Client, "v").Get(ctx))
		failIf(t, err == nil || strings.Contains(err.Error(), "\n"), "a value of another type: %v", err)
	}))
}
