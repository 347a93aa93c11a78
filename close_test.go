package interlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

func TestCloseReleasesWhatIsHeld(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		var leases []*interlock.Lease
		for name, l := range kinds(a.Client) {
			if name == "hold" {
				continue
			}
			lease := acquire(t, l)
			bound := bind(t, lease)
			defer func() { wantErr(t, context.Cause(bound), interlock.ErrClosed) }()
			leases = append(leases, lease)
		}
		began := time.Now()
		ok(t, a.Close())
		within(t, began, time.Millisecond, "closed after")
		for _, lease := range leases {
			wantErr(t, lease.Err(), interlock.ErrReleased)
			err := lease.Release() // others may have held it since
			wantErr(t, err, interlock.ErrLost)
			wantErr(t, err, interlock.ErrClosed)
		}
		time.Sleep(time.Second)
		nothingLeft(t, b)
		wantErr(t, errOf(a.Mutex("m").Acquire(ctx)), interlock.ErrClosed)
		wantErr(t, a.Close(), interlock.ErrClosed)
		wantErr(t, a.Latch("l").Wait(ctx), interlock.ErrClosed)
		wantErr(t, errOf(a.Adopt(ctx, "m", leases[0].ID())), interlock.ErrClosed)
	})
}

func TestCloseEndsEveryWait(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		var waits []<-chan result
		for name, l := range kinds(a.Client) {
			acquire(t, rival(b, name))
			waits = append(waits, async(ctx, l), async(ctx, l), async(ctx, l))
		}
		ok(t, a.Barrier("b").Set(ctx))
		others := []<-chan error{
			does(func() error { return a.Latch("l").Wait(ctx) }),
			does(func() error { return a.Barrier("b").Wait(ctx) }),
			does(func() error { return errOf(a.DoubleBarrier("d", 2).Enter(ctx)) }),
			does(func() error { return endOf(interlock.NewValue[int](a.Client, "v").Watch(ctx)) }),
			does(func() error { return endOf(a.Admin().Follow(ctx, "f")) }),
			does(func() error { return endOf(a.Election("e").Observe(ctx)) }),
			does(func() error { return a.Election("e").Lead(ctx, "a", untilDone) }),
		}
		began := time.Now()
		ok(t, a.Close())
		within(t, began, time.Millisecond, "closed after")
		for _, w := range waits {
			wantErr(t, (<-w).err, interlock.ErrClosed)
		}
		for _, c := range others {
			wantErr(t, <-c, interlock.ErrClosed)
		}
		wantErr(t, a.Election("e").Lead(ctx, "a", nil), interlock.ErrClosed)
	})
}

// Those who wait for a goroutine of the same process need not wait for it to
// return.
func TestCloseEndsTheWaitBehindARunningFunction(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, _ := pair(t)
		for _, l := range []*interlock.Lock{a.Mutex("m"), a.RWMutex("rw").Writer()} {
			defer close(a.stubborn(l).end)
		}
		waits := []<-chan result{async(ctx, a.Mutex("m")), async(ctx, a.Mutex("m")), async(ctx, a.RWMutex("rw").Writer())}
		synctest.Wait()
		go a.Close() // waits for the functions
		began := time.Now()
		for _, w := range waits {
			wantErr(t, (<-w).err, interlock.ErrClosed)
		}
		within(t, began, time.Millisecond, "they waited for")
		wantErr(t, errOf(a.Mutex("m").Acquire(ctx)), interlock.ErrClosed)
	})
}

// Close ends the contexts of running functions, and releases their locks when
// they have returned.
func TestCloseWaitsForRunningFunctions(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		began := time.Now()
		done := does(func() error {
			return a.Mutex("m", interlock.ReportDeath()).Do(ctx, func(held context.Context) error {
				<-held.Done()
				wantErr(t, context.Cause(held), interlock.ErrClosed)
				lease, holds := a.Mutex("m").Held(held)
				fatalIf(t, !holds, "the function does not hold the lock while Close waits for it")
				wantErr(t, context.Cause(bind(t, lease)), interlock.ErrClosed)
				time.Sleep(5 * time.Second)
				return lease.Err()
			})
		})
		next := async(ctx, b.Mutex("m", interlock.ReportDeath()))
		ok(t, a.Close())
		equal(t, time.Since(began), 5*time.Second, "closed after")
		ok(t, <-done)
		inherited(t, next, false)
	})
}

// A function that does not return is waited for until its deadline; the next
// holder is told that the work is half done.
func TestCloseWaitsNoLongerThanTheLeaseLasts(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		began := time.Now()
		work := a.stubborn(a.Mutex("m", interlock.ReportDeath()))
		next := async(ctx, b.Mutex("m", interlock.ReportDeath()))
		ok(t, a.Close())
		took(t, time.Since(began), ttl/2, ttl, "closed after")
		inherited(t, next, true)
		work.stop(t)
	})
}

// The lock of an evicted function that is still running does not pass on just
// because its client is closed.
func TestCloseWaitsForAnEvictedFunction(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		running := false
		done := does(func() error {
			return a.Mutex("m").Do(ctx, func(context.Context) error {
				running = true
				time.Sleep(5 * time.Second)
				running = false
				return nil
			})
		})
		evict(t, b, "m", false)
		next := async(ctx, b.Mutex("m"))
		go a.Close()
		r := served(t, next)
		failIf(t, running, "two at work")
		wantErr(t, <-done, interlock.ErrEvicted)
		ok(t, r.lease.Release())
	})
}

// Close takes about a TTL at most, whatever hangs.
func TestCloseEndsThoughTheBackendHangs(t *testing.T) {
	for name, fail := range map[string]func(*memlock.Faults){
		"hangs":   func(f *memlock.Faults) { f.Before("", 0).Hang() },
		"fails":   func(f *memlock.Faults) { f.Before("", 0).Fail() },
		"is cut":  func(f *memlock.Faults) { f.Cut() },
		"expires": func(f *memlock.Faults) { f.Expire() },
		"sticks":  func(f *memlock.Faults) { f.Before("Renew", 0).Stick(); f.Before("Join", 0).Stick() },
	} {
		simulatedAs(t, name, func(t *testing.T) {
			w := memlock.NewWorld()
			d, b := w.Driver(), join(t, w)
			a := errtest.Must(interlock.New(ctx, d))(t)
			var leases []*interlock.Lease
			for name, l := range kinds(a) {
				if name != "hold" {
					leases = append(leases, acquire(t, l))
				}
			}
			fail(d.Faults())
			joining := async(ctx, a.Mutex("other"))
			time.Sleep(ttl / 2)
			began := time.Now()
			err := a.Close()
			within(t, began, 2*ttl, "closed after")
			if r := <-joining; r.err == nil {
				leases = append(leases, r.lease)
			}
			for _, lease := range leases {
				failIf(t, lease.Err() == nil, "held after Close")
			}
			failIf(t, err == nil && name != "expires" && name != "sticks", "Close reports no error")
			time.Sleep(2 * ttl)
			nothingLeft(t, b)
		})
	}
}

// A connection that was cut since it was used last costs Close a try, and is no error.
func TestCloseTriesAgain(t *testing.T) {
	for name, at := range sides {
		simulatedAs(t, name, func(t *testing.T) {
			d := memlock.NewWorld().Driver()
			a := errtest.Must(interlock.New(ctx, d))(t)
			ok(t, acquire(t, a.Mutex("m")).Release())
			for k := range 3 {
				at(d.Faults(), "Close", k+1).Fail()
			}
			ok(t, a.Close())
		})
	}
}

func TestCloseWithEverythingInFlight(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		b := join(t, w)
		judge := &referee{t: t}
		for round := range 30 {
			a := join(t, w)
			var workers sync.WaitGroup
			for i := range 20 {
				workers.Go(func() {
					for name, l := range kinds(a.Client) {
						if name == "hold" {
							continue
						}
						_ = l.Do(ctx, func(held context.Context) error {
							if name == "mutex" {
								lease, _ := l.Held(held)
								judge.enter(lease)
								defer judge.Leave(lease)
							}
							time.Sleep(time.Duration(i) * time.Millisecond / 10)
							return nil
						})
					}
				})
			}
			time.Sleep(time.Duration(round) * time.Millisecond)
			ok(t, a.Close())
			workers.Wait()
			ok(t, judge.hold(b.Mutex("mutex"), 0))
		}
		time.Sleep(time.Second)
		nothingLeft(t, b)
	})
}

// A backend that does not answer makes Close last for about a TTL, whatever the TTL is and
// whatever is held.
func TestCloseLastsForAboutATTL(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 6 * time.Second, time.Minute} {
		for _, holds := range []bool{false, true} {
			simulated(t, func(t *testing.T) {
				w := memlock.NewWorld()
				a, b := join(t, w, interlock.TTL(ttl)), join(t, w, interlock.TTL(ttl))
				holder := acquire(t, b.Mutex("other"))
				if holds {
					for _, l := range kinds(a.Client) {
						acquire(t, l)
					}
					async(ctx, a.Mutex("other"))
				}
				a.faults().Before("", 0).Hang()
				began := time.Now()
				_ = a.Close()
				within(t, began, ttl+ttl/3, "TTL %v, holds %v: closed after", ttl, holds)
				ok(t, holder.Release())
			})
		}
	}
}
