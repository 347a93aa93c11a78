package interlock_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// away are the ways in which a backend is not available.
var away = map[string]func(*memlock.Faults){
	"silent": func(f *memlock.Faults) { f.Before("Join", 0).Hang() },
	"cut":    (*memlock.Faults).Cut,
}

// unavailable wants an error that says, or does not say, that the backend is not available. If it is not,
// whether the lock is busy is not known.
func unavailable(t *testing.T, err error, want bool) {
	t.Helper()
	if err == nil || errors.Is(err, interlock.ErrUnavailable) != want || want && errors.Is(err, interlock.ErrBusy) {
		t.Errorf("%v: ErrUnavailable should be %v, and then it is not ErrBusy", err, want)
	}
}

// Who has waited for as long as it would learns whether others hold the lock or the backend
// was not available.
func TestAWaitTellsABusyLockFromAnAbsentBackend(t *testing.T) {
	for _, kind := range allKinds(t) {
		t.Run(kind, func(t *testing.T) {
			simulated(t, func(t *testing.T) {
				a, b := pair(t)
				lease := acquire(t, rival(b, kind))
				_, err := kinds(a.Client)[kind].With(interlock.Wait(2 * time.Second)).Acquire(ctx)
				wantErr(t, err, interlock.ErrBusy)
				unavailable(t, err, false)
				ok(t, lease.Release())
			})
			for way, fail := range away {
				for _, wait := range []time.Duration{2 * time.Second, time.Minute} { // shorter and longer than a try
					simulated(t, func(t *testing.T) {
						a := join(t, memlock.NewWorld())
						lock := kinds(a.Client)[kind]
						fail(a.faults())
						_, err := lock.With(interlock.Wait(wait)).Acquire(ctx)
						unavailable(t, err, true)

						a.faults().Clear()
						fail(a.faults())
						_, err = lock.Acquire(lasting(t, wait))
						wantErr(t, err, context.DeadlineExceeded)
						unavailable(t, err, true)
						fatalIf(t, t.Failed(), "%s, a wait of %v", way, wait)
					})
				}
			}
		})
	}
}

// What has no time left to ask, such as a lock of All whose other locks have taken it all, says that the backend was
// away.
func TestAWaitThatIsOverAtOnceTellsOfAnAbsentBackend(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		lease := acquire(t, a.Mutex("held"))
		a.faults().Cut()
		<-lease.Done()
		over, cancel := context.WithDeadlineCause(ctx, time.Now(), interlock.ErrBusy)
		defer cancel()
		_, err := a.Mutex("free").Acquire(over)
		unavailable(t, err, true)
	})
}

// A connection that was not made in time is the backend's fault, and not the end of the wait,
// although the errors of both say that they are a DeadlineExceeded.
func TestAWaitTellsOfATimeoutOfTheNetwork(t *testing.T) {
	_, timeout := (&net.Dialer{Deadline: time.Now().Add(-time.Hour)}).Dial("tcp", "127.0.0.1:1")
	fatalIf(t, !errors.Is(timeout, context.DeadlineExceeded), "%v", timeout)
	simulated(t, func(t *testing.T) {
		c := client(t, wrapped{memlock.New(), func(s driver.Session) driver.Session {
			return joins{s, func() (driver.Ticket, error) { return driver.Ticket{}, timeout }}
		}})
		err := errOf(c.Mutex("m").Acquire(lasting(t, 2*time.Second)))
		wantErr(t, err, context.DeadlineExceeded)
		unavailable(t, err, true)
		errtest.Says(t, err, "i/o timeout")
	})
}

// So do those of the same process who wait behind the one that asks the backend.
func TestWhoWaitsBehindAnotherOfItsProcessLearnsThatTheBackendIsAway(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lock := a.Mutex("m")
		a.faults().Before("Join", 1).Hang()
		cancelled, cancel := context.WithCancel(ctx)
		first := async(cancelled, lock)
		_, err := lock.With(interlock.Wait(2 * time.Second)).Acquire(ctx)
		unavailable(t, err, true)
		cancel()
		wantErr(t, (<-first).err, context.Canceled)
	}))
}

// One try of a backend that fails is no busy lock, and what the next try would bring again is
// not unavailable.
func TestATryTellsABusyLockFromAnAbsentBackend(t *testing.T) {
	for _, kind := range allKinds(t) {
		t.Run(kind, func(t *testing.T) {
			for _, fail := range away {
				simulated(t, func(t *testing.T) {
					a := join(t, memlock.NewWorld())
					fail(a.faults())
					_, err := kinds(a.Client)[kind].TryAcquire(ctx)
					unavailable(t, err, true)
				})
			}
			simulated(t, func(t *testing.T) {
				a := join(t, memlock.NewWorld())
				a.faults().Before("Join", 1).Refuse(errors.New("a wrong password"))
				_, err := kinds(a.Client)[kind].TryAcquire(ctx)
				unavailable(t, err, false)
				failIf(t, !driver.IsPermanent(err), "%v: it is permanent", err)
			})
		})
	}
}

// A value that cannot be read in time says so, whether tries fail or are not answered.
func TestAReadOfAnAbsentBackendSaysSo(t *testing.T) {
	for _, fail := range []func(*memlock.Faults){(*memlock.Faults).Cut, func(f *memlock.Faults) { f.Before("Load", 0).Hang() }} {
		for _, wait := range []time.Duration{time.Second, time.Minute} { // shorter and longer than a try
			simulated(t, func(t *testing.T) {
				a := join(t, memlock.NewWorld())
				fail(a.faults())
				err := errOf(interlock.NewValue[int](a.Client, "v").Get(lasting(t, wait)))
				wantErr(t, err, context.DeadlineExceeded)
				unavailable(t, err, true)
			})
		}
	}
}

var (
	errElects  = errors.New("the cluster elects a leader")
	notReady   atomic.Int64 // until this time, in nanoseconds, the server says that it is not ready
	silentThen atomic.Bool  // and then it does not answer
)

func init() {
	driver.Register("elects", func(ctx context.Context, u *driver.URL) (driver.Driver, error) {
		if time.Now().UnixNano() < notReady.Load() {
			return nil, driver.Passing(errElects)
		}
		if silentThen.Load() {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return memlock.New(), u.Check()
	})
}

// A server that says that it is not ready is asked again, for some seconds and not beyond the context; the error is
// what it said.
func TestOpenWaitsForAServerThatIsNotReady(t *testing.T) {
	for _, c := range []struct {
		name        string
		ready, time time.Duration // time is that of the context
		silent, ok  bool
	}{
		{"it is ready soon", 3 * time.Second, time.Minute, false, true},
		{"it stays so", time.Hour, time.Minute, false, false},
		{"there is less time", 3 * time.Second, time.Second, false, false},
		{"it does not answer then", time.Second, 2 * time.Second, true, false},
	} {
		simulated(t, func(t *testing.T) {
			began := time.Now()
			notReady.Store(began.Add(c.ready).UnixNano())
			silentThen.Store(c.silent)
			client, err := interlock.Open(lasting(t, c.time), "elects:")
			took := time.Since(began)
			if c.ok {
				ok(t, err)
				ok(t, client.Close())
			} else {
				wantErr(t, err, errElects)
				wantErr(t, err, interlock.ErrUnavailable)
				failIf(t, !interlock.Retryable(err), "%s: %v is not retryable", c.name, err)
			}
			failIf(t, took > min(c.time, 7*time.Second) || c.ok && took < c.ready, "%s: after %v", c.name, took)
		})
	}
}

// A URL that is wrong is no outage, and whoever cancels is told so.
func TestAWrongURLIsNoOutage(t *testing.T) {
	silentThen.Store(true)
	notReady.Store(0)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range []error{errOf(interlock.Open(ctx, "mem:?nosuch=1")), errOf(interlock.Open(cancelled, "elects:"))} {
		failIf(t, err == nil || errors.Is(err, interlock.ErrUnavailable) || interlock.Retryable(err), "%v", err)
	}
}
