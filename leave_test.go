package interlock_test

import (
	"context"
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

// A Release of a lease of ExpiresAfter that runs out meanwhile says that it is lost, and why.
func TestAHoldThatRunsOutWhileItIsReleasedIsLost(t *testing.T) {
	for name, arm := range map[string]func(memlock.Point){
		"fails":        memlock.Point.Fail,
		"hangs":        func(p memlock.Point) { p.Hang() },
		"session over": func(p memlock.Point) { p.Refuse(driver.ErrSession) },
	} {
		simulatedAs(t, name, func(t *testing.T) {
			a := join(t, memlock.NewWorld())
			lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(2*ttl)))
			time.Sleep(2*ttl - margin(2*ttl) - 100*time.Millisecond)
			arm(a.faults().Before("Leave", 0))
			err := lease.Release()
			wantErr(t, err, interlock.ErrLost)
			text := err.Error()
			failIf(t, !strings.Contains(text, "ran out before it could be given back") || strings.Contains(text, "answer"), "it says %q", err)
			wantErr(t, lease.Err(), interlock.ErrLost)
		})
	}
}

// Promise: a lease may be released by several at once, also while the backend does not answer: all are told the same.
func TestTwoReleasesAtOnce(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		lease := acquire(t, a.Mutex("m"))
		hung := a.faults().Before("Leave", 1).Hang()
		results := []<-chan error{does(lease.Release), does(lease.Release), does(lease.Release)}
		time.Sleep(time.Second) // passes although they wait for each other
		for _, r := range results {
			select {
			case err := <-r:
				t.Errorf("a release has not waited for the backend: %v", err)
				return
			default:
			}
		}
		hung.Deliver()
		for _, r := range results {
			ok(t, <-r)
		}
		ok(t, lease.Release())
	})
}

func margin(d time.Duration) time.Duration { return min(d/10, time.Second) }

// However a Release finds out that the lock is lost, it says why, and Lease.Err says the same.
func TestAReleaseThatFindsTheLockLostSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*memlock.Faults)
		says  []string
	}{
		"no answer":    {func(f *memlock.Faults) { f.Before("Leave", 0).Hang() }, []string{"the last answer came 1", "deadline exceeded"}},
		"failure":      {func(f *memlock.Faults) { f.Before("Leave", 0).Fail() }, []string{"the last answer came 1", "failed on demand"}},
		"gone":         {func(f *memlock.Faults) { f.Before("Leave", 0).Refuse(driver.ErrGone) }, []string{"forgotten"}},
		"session over": {func(f *memlock.Faults) { f.Before("Leave", 0).Refuse(driver.ErrSession) }, []string{"session over"}},
	} {
		for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}} {
			simulatedAs(t, name, func(t *testing.T) {
				a := join(t, memlock.NewWorld())
				lease := acquire(t, a.Mutex("m", opts...))
				c.fault(a.faults())
				began := time.Now()
				err := lease.Release()
				wantErr(t, err, interlock.ErrLost)
				within(t, began, ttl, "it took")
				errtest.Says(t, err, c.says...)
				is := lease.Err()
				failIf(t, is == nil || !strings.HasSuffix(err.Error(), is.Error()), "Release says %q, Err says %q", err, is)
			})
		}
	}
}

// A leader that cannot resign has led until its function returned: it does not campaign again.
func TestALeaderThatCannotResignEnds(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		var led atomic.Int32
		err := a.Election("e").Lead(ctx, "", func(context.Context) error {
			led.Add(1)
			a.faults().Before("Leave", 0).Fail()
			time.AfterFunc(2*ttl, a.faults().Clear)
			return nil
		})
		wantErr(t, err, interlock.ErrLost)
		equal(t, led.Load(), 1, "times that it led")
	})
}

// Release of an evicted lease returns when its ticket has left: a program that ends then keeps
// nobody out.
func TestAReleaseOfAnEvictedLeaseWaitsForItsTicketToLeave(t *testing.T) {
	for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}, {interlock.ExpiresAfter(time.Hour)}} {
		simulated(t, both(func(t *testing.T, a, b member) {
			lease := acquire(t, a.Mutex("m", opts...))
			evict := func() {
				ok(t, b.Admin().Evict(ctx, "m", lease.ID(), false))
				synctest.Wait()
				wantErr(t, lease.Err(), interlock.ErrEvicted)
			}
			evict()
			late := a.faults().Before("Leave", 1).Hang()
			time.AfterFunc(time.Second, late.Deliver)
			wantErr(t, lease.Release(), interlock.ErrEvicted)
			ok(t, errtest.Must(b.Mutex("m", opts...).TryAcquire(ctx))(t).Release())

			// It waits no longer than a Release of a lease that is held.
			lease = acquire(t, a.Mutex("m", opts...))
			evict()
			a.faults().Before("Leave", 0).Hang()
			began := time.Now()
			wantErr(t, lease.Release(), interlock.ErrEvicted)
			took(t, time.Since(began), ttl/2, ttl, "waited for")
			a.faults().Clear()
			time.Sleep(time.Hour)
		}))
	}
}

// A holder that does not answer is waited for until its TTL has run out.
func TestEvictionWaitsNoLongerThanTheTTL(t *testing.T) {
	for name, hold := range map[string][]interlock.Option{"renewed": nil, "fixed": {interlock.ExpiresAfter(time.Hour)}} {
		simulatedAs(t, name, func(t *testing.T) {
			a, b := pair(t)
			lease := acquire(t, a.Mutex("m", hold...))
			began := time.Now()
			next := async(ctx, b.Mutex("m"))
			ok(t, b.Admin().Evict(ctx, "m", lease.ID(), false))
			r := served(t, next)
			wantErr(t, lease.Err(), interlock.ErrEvicted)
			took(t, time.Since(began), ttl/2, ttl, "passed on after")
			ok(t, r.lease.Release())
		})
	}
}

// Revoke is a request: the lease stays, and the lock is handed on to nobody of
// the same process before the backend is asked, also at once.
func TestRevoke(t *testing.T) {
	for _, stays := range []time.Duration{0, 2 * ttl} {
		simulated(t, both(func(t *testing.T, a, b member) {
			lease := acquire(t, a.Mutex("m"))
			asked := lease.Revoked()
			local := async(ctx, a.Mutex("m"))
			remote := async(ctx, b.Mutex("m"))
			ok(t, b.Admin().Revoke(ctx, "m", lease.ID()))
			<-asked
			<-lease.Revoked()
			ok(t, lease.Err())
			time.Sleep(stays)
			ok(t, lease.Err())
			ok(t, lease.Release())
			r := served(t, remote)
			notYet(t, local, "two holders")
			ok(t, r.lease.Release())
			r = served(t, local)
			failIf(t, ended(r.lease.Revoked()), "a new lease is revoked")
			ok(t, r.lease.Release())
			wantErr(t, b.Admin().Revoke(ctx, "m", lease.ID()), interlock.ErrLost)
		}))
	}
}

// What is evicted, and shared, passes on when all its leases have been released: others may
// be at work when the first is.
func TestAnEvictedSharedLockWaitsForAllItsLeases(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		var leases []*interlock.Lease
		for range 3 {
			leases = append(leases, acquire(t, a.RWMutex("m").Reader()))
		}
		held := bind(t, leases[2])
		nested := errtest.Must(a.RWMutex("m", interlock.Reentrant()).Reader().Acquire(held))(t)
		leases = append(leases, nested)
		next := async(ctx, b.RWMutex("m").Writer())
		ok(t, b.Admin().Evict(ctx, "m", leases[0].ID(), false))
		for i, l := range leases {
			<-l.Done()
			_, done := got(next)
			fatalIf(t, done, "passed on after %d of %d were released", i, len(leases))
			wantErr(t, l.Release(), interlock.ErrEvicted)
		}
		now(t, next, "not passed on when all were released").release(t)
	}))
}
