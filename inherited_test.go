package interlock_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// A lock with ReportDeath tells the next holder whether the last one left its work half
// done.
func TestInherited(t *testing.T) {
	robust := interlock.ReportDeath()
	work := func(f func() error, opts ...interlock.Option) func(member) {
		return func(a member) {
			defer func() { _ = recover() }()
			_ = a.Mutex("m", append(opts, robust)...).Do(ctx, func(context.Context) error { time.Sleep(time.Nanosecond); return f() })
		}
	}
	dies := func(how func(*memlock.Faults)) func(member) {
		return func(a member) {
			_, _ = a.Mutex("m", robust).Acquire(ctx)
			time.Sleep(time.Nanosecond)
			how(a.faults())
		}
	}
	panics := func() error { panic("half done") }
	for name, c := range map[string]struct {
		end       func(a member)
		inherited bool
	}{
		"released":           {work(func() error { return nil }), false},
		"an error":           {work(func() error { return context.Canceled }), false},
		"a panic":            {work(panics), true},
		"a panic, strict":    {work(panics, interlock.StrictOrder()), true},
		"the goroutine ends": {work(func() error { runtime.Goexit(); return nil }), true},
		"death":              {dies((*memlock.Faults).Cut), true},
		"the session's end":  {dies((*memlock.Faults).Expire), true},
		"a panic in a nested Do": {func(a member) {
			l := a.Mutex("m", robust, interlock.Reentrant())
			_ = l.Do(ctx, func(held context.Context) error {
				defer func() { _ = recover() }()
				return l.Do(held, func(context.Context) error { time.Sleep(time.Nanosecond); panic("half done") })
			})
		}, true},
	} {
		for _, own := range []bool{true, false} {
			if own && name == "death" {
				continue
			}
			simulatedAs(t, name, func(t *testing.T) {
				a, b := pair(t)
				next := b
				if own { // handed over inside the process, or not
					next = a
				}
				done := make(chan struct{})
				go func() { defer close(done); c.end(a) }()
				synctest.Wait()
				inherited(t, async(ctx, next.Mutex("m", robust)), c.inherited)
				<-done
				inherited(t, async(ctx, next.Mutex("m", robust)), false)
			})
		}
	}
}

// Work that is half done is told of, though the lock was to be kept for a while.
func TestAPanicUnderAtLeastIsInheritedFrom(t *testing.T) {
	robust := interlock.ReportDeath()
	for name, end := range map[string]func(t *testing.T, a member, l *interlock.Lock){
		"a panic": func(t *testing.T, a member, l *interlock.Lock) {
			defer func() { _ = recover() }()
			_ = l.Do(ctx, func(context.Context) error { panic("half done") })
		},
		"a Close that has waited in vain": func(t *testing.T, a member, l *interlock.Lock) {
			over := make(chan struct{})
			t.Cleanup(func() { close(over) })
			go func() { _ = l.Do(ctx, func(context.Context) error { <-over; return nil }) }()
			synctest.Wait()
			ok(t, a.Close())
		},
	} {
		simulatedAs(t, name, func(t *testing.T) {
			a, b := pair(t)
			end(t, a, a.Mutex("m", robust, interlock.AtLeast(time.Hour)))
			began := time.Now()
			next := acquire(t, b.Mutex("m", robust))
			inherits(t, next, true)
			within(t, began, ttl, "told after")
			ok(t, next.Release())
		})
	}
}

// A lock with ReportDeath does not get the ticket of one without, which knows nothing of the last
// holder.
func TestALockThatReportsDeathHasATicketOfItsOwn(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		dead := acquire(t, b.Mutex("m"))
		plain := async(ctx, a.Mutex("m"))
		robust := async(ctx, a.Mutex("m", interlock.ReportDeath()))
		b.faults().Expire()
		first := <-plain
		first.release(t)
		second := served(t, robust)
		failIf(t, second.lease.BackendToken() == first.lease.BackendToken(), "both had one ticket")
		ok(t, second.lease.Release())
		wantErr(t, dead.Release(), interlock.ErrLost)
	}))
}

// What the last holder left is not forgotten because the one who was told has given up at
// the same moment.
func TestWhoGivesUpLeavesTheNewsToTheNext(t *testing.T) {
	robust := interlock.ReportDeath()
	for name, opts := range map[string][]interlock.Option{"shared": {robust}, "strict": {robust, interlock.StrictOrder()}} {
		for _, at := range []string{"the reply is there", "the reply is on its way"} {
			simulatedAs(t, name+", "+at, func(t *testing.T) {
				a, b, c := trio(t)
				acquire(t, b.Mutex("m", robust))
				reply := a.faults().After("Await", 1)
				hung := reply.Stick
				if at == "the reply is on its way" {
					hung = reply.Hang
				}
				told := hung()
				waiting, cancel := context.WithCancel(ctx)
				gives := async(waiting, a.Mutex("m", opts...))
				next := async(ctx, c.Mutex("m", robust))
				b.faults().Expire()
				<-told.Reached()
				cancel()
				synctest.Wait()
				told.Deliver()
				wantErr(t, (<-gives).err, context.Canceled)
				inherited(t, next, true)
				nothingLeft(t, a, b, c)
			})
		}
	}
}

// A Release that was called in time says that the work is finished, also if it arrives late
// and its caller was told ErrLost. One that finds the ticket ended says nothing any more.
func TestALateReleaseIsCleanIfTheTicketStillStands(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		simulated(t, func(t *testing.T) {
			a, b := pair(t)
			lease := acquire(t, a.Mutex("m", interlock.ReportDeath()))
			next := async(ctx, b.Mutex("m", interlock.ReportDeath()))
			late := a.faults().Before("Leave", 1).Hang()
			a.faults().Before("Leave", 0).Hang()
			wantErr(t, lease.Release(), interlock.ErrLost)
			if !inTime {
				time.Sleep(ttl)
			}
			late.Deliver()
			inherited(t, next, !inTime)
			a.faults().Clear()
		})
	}
}
