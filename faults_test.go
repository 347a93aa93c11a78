package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// Whichever call of a client fails, before or after it had its effect, or
// hangs: two never hold, nobody waits for ever, and nothing is left behind.
func TestAnyCallMayFail(t *testing.T) {
	for name, opts := range map[string][]interlock.Option{
		"shared": nil, "sticky": {interlock.Sticky()}, "reporting death and strict": {interlock.ReportDeath(), interlock.StrictOrder()},
	} {
		anyCallMayFail(t, name, 45, func(t *testing.T, arm func(*memlock.Faults)) { scenario(t, opts, arm) })
	}
}

// anyCallMayFail plays a scenario again and again, each time with another call that fails.
func anyCallMayFail(t *testing.T, name string, calls int, scenario func(t *testing.T, arm func(*memlock.Faults))) {
	for fault, arm := range map[string]func(p memlock.Point){
		"fails":   func(p memlock.Point) { p.Fail() },
		"hangs":   func(p memlock.Point) { time.AfterFunc(10*ttl, p.Hang().Lose) }, // one that waits for others has no bound of its own
		"is slow": func(p memlock.Point) { time.AfterFunc(7*time.Second, p.Hang().Deliver) },
	} {
		for side, at := range sides {
			t.Run(fmt.Sprint(name, " ", fault, " ", side), func(t *testing.T) {
				for k := 1; k <= calls; k++ {
					simulated(t, func(t *testing.T) {
						scenario(t, func(f *memlock.Faults) { arm(at(f, "", k)) })
					})
					fatalIf(t, t.Failed(), "at call %d", k)
				}
			})
		}
	}
}

// scenario has three clients contend for a mutex, one of which runs into
// faults.
func scenario(t *testing.T, opts []interlock.Option, arm func(*memlock.Faults)) {
	w := memlock.NewWorld()
	judge := &referee{t: t}
	var members []member
	for range 3 {
		members = append(members, join(t, w))
	}
	arm(members[0].faults())
	var wg sync.WaitGroup
	for i, m := range members {
		for range 2 {
			wg.Go(func() {
				for j := range 3 {
					err := judge.hold(m.Mutex("m", opts...), time.Duration(1+i+j)*time.Second)
					failIf(t, err != nil && i > 0, "%v", err)
				}
			})
		}
	}
	wg.Wait()
	if n := judge.grants.Load(); n < 16 { // a grant may be lost on its way
		t.Errorf("%d grants", n)
	}
	members[0].faults().Clear()
	time.Sleep(4 * ttl)
	nothingLeft(t, members...)
}

// A call that was lost before Release, Downgrade or Extend had its effect, or
// after it, is made again.
func TestLostRepliesAreOvercome(t *testing.T) {
	for method, do := range map[string]func(t *testing.T, a member) error{
		"Leave": func(t *testing.T, a member) error { return acquire(t, a.Mutex("m")).Release() },
		"Shrink": func(t *testing.T, a member) error {
			lease := acquire(t, a.RWMutex("m").Writer())
			return errors.Join(lease.Downgrade(ctx), lease.Release())
		},
		"Keep": func(t *testing.T, a member) error {
			lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Hour)))
			return errors.Join(lease.Extend(ctx, 2*time.Hour), lease.Release())
		},
		"Ask": func(t *testing.T, a member) error {
			lease := acquire(t, a.Mutex("m"))
			err := a.Admin().Revoke(ctx, "m", lease.ID())
			<-lease.Revoked()
			return errors.Join(err, lease.Release())
		},
		"Raise": func(t *testing.T, a member) error {
			err := a.Admin().RaiseToken(ctx, "m", 1<<40)
			lease := acquire(t, a.Mutex("m"))
			failIf(t, lease.Token() <= 1<<40, "token %d", lease.Token())
			return errors.Join(err, lease.Release())
		},
	} {
		for side, at := range sides {
			simulatedAs(t, method+" "+side, alone(func(t *testing.T, a member) {
				at(a.faults(), method, 1).Fail()
				at(a.faults(), method, 1).Hang()
				ok(t, do(t, a))
				equal(t, a.faults().Waiting(), 0, "faults that were not reached")
			}))
		}
	}
}

// A Release that the backend refuses is repeated as long as the lease lasts: a server is
// read-only, or a right is missing, for a second of a switch-over.
func TestARefusedReleaseIsRepeated(t *testing.T) {
	refused := errors.New("read-only")
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, a.Mutex("m"))
		a.faults().Before("Leave", 0).Refuse(refused)
		time.AfterFunc(ttl/3, a.faults().Clear)
		began := time.Now()
		ok(t, lease.Release())
		ok(t, acquire(t, b.Mutex("m")).Release())
		within(t, began, ttl/2, "the lock passed on after")

		lease = acquire(t, a.Mutex("m"))
		a.faults().Before("Leave", 0).Refuse(refused)
		err := lease.Release()
		wantErr(t, err, interlock.ErrLost)
		wantErr(t, err, refused)
		a.faults().Clear()
		ok(t, acquire(t, b.Mutex("m")).Release()) // it has ended by itself
	}))
}

// A Release goes on trying up to the end of its lease, and the lock passes on soon after the
// backend is back, whatever the TTL is.
func TestAReleaseIsTriedUpToTheEnd(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 6 * time.Second, 15 * time.Second, time.Minute} {
		simulated(t, func(t *testing.T) {
			a := join(t, memlock.NewWorld(), interlock.TTL(ttl))
			for _, left := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, ttl / 6, ttl / 2} {
				for range 10 {
					lease := acquire(t, a.Mutex("m"))
					a.faults().Before("Leave", 0).Fail()
					back := lease.Remaining() - left
					time.AfterFunc(back, a.faults().Clear)
					began := time.Now()
					ok(t, lease.Release())
					late := time.Since(began) - back
					failIf(t, late > ttl/8, "a TTL of %v: released %v after the backend is back", ttl, late)
				}
			}
		})
	}
}

// A Release that could not be made known is not taken for a clean one later on,
// when the backend can be reached again.
func TestAnUnconfirmedUncleanReleaseStaysUnclean(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		time.Sleep(ttl / 30) // a heartbeat falls between the deadline and the end
		a.faults().Before("Leave", 0).Fail()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_ = a.Mutex("m", interlock.ReportDeath()).Do(ctx, func(context.Context) error { panic("half done") })
		}()
		synctest.Wait()
		next := async(ctx, b.Mutex("m", interlock.ReportDeath()))
		<-done
		a.faults().Clear()
		r := served(t, next)
		inherits(t, r.lease, true)
		ok(t, r.lease.Release())
	}))
}

// A Release of what the backend does not have any more says so, though nobody has told the
// holder before.
func TestAReleaseOfWhatIsGoneIsALoss(t *testing.T) {
	for name, opts := range map[string][]interlock.Option{
		"shared": nil, "strict": {interlock.StrictOrder()}, "fixed": {interlock.ExpiresAfter(time.Hour)}, "at least": {interlock.AtLeast(time.Hour)},
	} {
		simulatedAs(t, name, both(func(t *testing.T, a, b member) {
			lease := acquire(t, a.Mutex("m", opts...))
			a.faults().Before("Signals", 0).Hang()
			a.faults().Before("Renew", 0).Hang()
			a.faults().Cut() // Signals is called anew, and hangs
			ok(t, b.Admin().Evict(ctx, "m", lease.ID(), true))
			a.faults().Heal()
			wantErr(t, lease.Release(), interlock.ErrLost)
			a.faults().Clear()
		}))
	}
}
