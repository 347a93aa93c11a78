package interlock_test

import (
	"context"
	"errors"
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

// A Release of a lease of Hold that runs out meanwhile says that it is lost, and why.
func TestAHoldThatRunsOutWhileItIsReleasedIsLost(t *testing.T) {
	for name, arm := range map[string]func(memlock.Point){
		"fails":        memlock.Point.Fail,
		"hangs":        func(p memlock.Point) { p.Hang() },
		"session over": func(p memlock.Point) { p.Refuse(driver.ErrSession) },
	} {
		simulatedAs(t, name, func(t *testing.T) {
			a := join(t, memlock.NewWorld())
			lease := acquire(t, a.Mutex("m", interlock.Hold(2*ttl)))
			time.Sleep(2*ttl - margin(2*ttl) - 100*time.Millisecond)
			arm(a.faults().Before("Leave", 0))
			err := lease.Release()
			wantErr(t, err, interlock.ErrLost)
			if text := err.Error(); !strings.Contains(text, "ran out before it could be given back") || strings.Contains(text, "answer") {
				t.Errorf("it says %q", err)
			}
			wantErr(t, lease.Err(), interlock.ErrLost)
		})
	}
}

// A Release of a lease of Hold that stands longer than a TTL does not say that it is lost,
// whatever was wrong.
func TestAHoldThatCannotBeReleasedIsNotLost(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		lease := acquire(t, a.Mutex("m", interlock.Hold(time.Hour)))
		a.faults().Before("Leave", 0).Refuse(driver.ErrSession)
		if err := lease.Release(); err == nil || errors.Is(err, interlock.ErrLost) {
			t.Errorf("got %v", err)
		}
		wantErr(t, lease.Err(), interlock.ErrReleased)
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
				if d := time.Since(began); d > ttl {
					t.Errorf("it took %v", d)
				}
				for _, s := range c.says {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%q does not say %q", err, s)
					}
				}
				if is := lease.Err(); is == nil || !strings.HasSuffix(err.Error(), is.Error()) {
					t.Errorf("Release says %q, Err says %q", err, is)
				}
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
		if n := led.Load(); n != 1 {
			t.Errorf("led %d times", n)
		}
	})
}

// Release of an evicted lease returns when its ticket has left: a program that ends then keeps
// nobody out.
func TestAReleaseOfAnEvictedLeaseWaitsForItsTicketToLeave(t *testing.T) {
	for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}, {interlock.Hold(time.Hour)}} {
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
			if d := time.Since(began); d < ttl/2 || d > ttl {
				t.Errorf("waited for %v", d)
			}
			a.faults().Clear()
			time.Sleep(time.Hour)
		}))
	}
}
