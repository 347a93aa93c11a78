package interlock_test

import (
	"context"
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
			bound, cancel := lease.Bind(ctx)
			defer cancel()
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
			acquire(t, kinds(b.Client)[name].With())
			if name == "reader" {
				l = a.RWMutex("reader").Writer()
			}
			waits = append(waits, async(ctx, l), async(ctx, l), async(ctx, l))
		}
		others := make(chan error, 6)
		go func() { others <- a.Latch("l").Wait(ctx) }()
		go func() { ok(t, a.Barrier("b").Set(ctx)); others <- a.Barrier("b").Wait(ctx) }()
		go func() { _, err := a.DoubleBarrier("d", 2).Enter(ctx); others <- err }()
		go func() {
			for _, err := range interlock.NewValue[int](a.Client, "v").Watch(ctx) {
				if err != nil {
					others <- err
				}
			}
		}()
		go func() {
			for _, err := range a.Admin().Follow(ctx, "f") {
				if err != nil {
					others <- err
				}
			}
		}()
		go func() {
			for _, err := range a.Election("e").Observe(ctx) {
				if err != nil {
					others <- err
				}
			}
		}()
		synctest.Wait()
		began := time.Now()
		ok(t, a.Close())
		within(t, began, time.Millisecond, "closed after")
		for _, w := range waits {
			wantErr(t, (<-w).err, interlock.ErrClosed)
		}
		for range cap(others) {
			wantErr(t, <-others, interlock.ErrClosed)
		}
	})
}

// Those who wait for a goroutine of the same process need not wait for it to
// return.
func TestCloseEndsTheWaitBehindARunningFunction(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, _ := pair(t)
		for _, l := range []*interlock.Lock{a.Mutex("m"), a.RWMutex("rw").Writer()} {
			inside, leave := make(chan struct{}), make(chan struct{})
			go func() {
				_ = l.Do(ctx, func(context.Context) error {
					close(inside)
					<-leave
					return nil
				})
			}()
			<-inside
			defer close(leave)
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
		done := make(chan error, 1)
		go func() {
			done <- a.Mutex("m", interlock.ReportDeath()).Do(ctx, func(held context.Context) error {
				<-held.Done()
				wantErr(t, context.Cause(held), interlock.ErrClosed)
				lease, holds := a.Mutex("m").Held(held)
				if !holds {
					t.Error("the function does not hold the lock while Close waits for it")
					return nil
				}
				late, cancel := lease.Bind(ctx)
				defer cancel()
				wantErr(t, context.Cause(late), interlock.ErrClosed)
				time.Sleep(5 * time.Second)
				ok(t, lease.Err())
				return nil
			})
		}()
		synctest.Wait()
		next := async(ctx, b.Mutex("m", interlock.ReportDeath()))
		ok(t, a.Close())
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("closed after %v", d)
		}
		ok(t, <-done)
		r := served(t, next)
		inherits(t, r.lease, false)
		ok(t, r.lease.Release())
	})
}

// A function that does not return is waited for until its deadline; the next
// holder is told that the work is half done.
func TestCloseWaitsNoLongerThanTheLeaseLasts(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		began := time.Now()
		release := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- a.Mutex("m", interlock.ReportDeath()).Do(ctx, func(context.Context) error { <-release; return nil })
		}()
		synctest.Wait()
		next := async(ctx, b.Mutex("m", interlock.ReportDeath()))
		ok(t, a.Close())
		if d := time.Since(began); d < ttl/2 || d > ttl {
			t.Errorf("closed after %v", d)
		}
		r := served(t, next)
		inherits(t, r.lease, true)
		close(release)
		wantErr(t, <-done, interlock.ErrLost)
		ok(t, r.lease.Release())
	})
}

// The lock of an evicted function that is still running does not pass on just
// because its client is closed.
func TestCloseWaitsForAnEvictedFunction(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		running := false
		done := make(chan error, 1)
		id := make(chan string, 1)
		go func() {
			done <- a.Mutex("m").Do(ctx, func(held context.Context) error {
				running = true
				defer func() { running = false }()
				lease, _ := a.Mutex("m").Held(held)
				id <- lease.ID()
				time.Sleep(5 * time.Second)
				return nil
			})
		}()
		ok(t, b.Admin().Evict(ctx, "m", <-id, false))
		next := async(ctx, b.Mutex("m"))
		synctest.Wait()
		go a.Close()
		r := served(t, next)
		if running {
			t.Error("two at work")
		}
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
			if r := <-joining; r.err == nil && r.lease.Err() == nil {
				t.Error("held after Close")
			}
			for _, lease := range leases {
				if lease.Err() == nil {
					t.Error("held after Close")
				}
			}
			if name == "hangs" || name == "fails" || name == "is cut" {
				if err == nil {
					t.Error("Close reports no error")
				}
			}
			time.Sleep(2 * ttl)
			nothingLeft(t, b)
		})
	}
}

// A connection that was cut since it was used last costs Close a try, and is no error.
func TestCloseTriesAgain(t *testing.T) {
	for name, cut := range map[string]func(f *memlock.Faults, k int){
		"before": func(f *memlock.Faults, k int) { f.Before("Close", k).Fail() },
		"after":  func(f *memlock.Faults, k int) { f.After("Close", k).Fail() },
	} {
		simulatedAs(t, name, func(t *testing.T) {
			d := memlock.NewWorld().Driver()
			a := errtest.Must(interlock.New(ctx, d))(t)
			ok(t, acquire(t, a.Mutex("m")).Release())
			for k := range 3 {
				cut(d.Faults(), k+1)
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
			ends := make(chan struct{})
			const workers = 20
			for i := range workers {
				go func() {
					defer func() { ends <- struct{}{} }()
					for name, l := range kinds(a.Client) {
						if name == "hold" {
							continue
						}
						_ = l.Do(ctx, func(held context.Context) error {
							if name == "mutex" {
								lease, _ := l.Held(held)
								judge.enter(lease)
								defer judge.leave(lease)
							}
							time.Sleep(time.Duration(i) * time.Millisecond / 10)
							return nil
						})
					}
				}()
			}
			time.Sleep(time.Duration(round) * time.Millisecond)
			ok(t, a.Close())
			for range workers {
				<-ends
			}
			lease := acquire(t, b.Mutex("mutex"))
			judge.enter(lease)
			judge.leave(lease)
			ok(t, lease.Release())
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
					synctest.Wait()
				}
				a.faults().Before("", 0).Hang()
				began := time.Now()
				_ = a.Close()
				if d := time.Since(began); d > ttl+ttl/3 {
					t.Errorf("TTL %v, holds %v: closed after %v", ttl, holds, d)
				}
				ok(t, holder.Release())
			})
		}
	}
}
