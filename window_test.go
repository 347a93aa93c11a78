package interlock_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// The tests of this file have something happen between what a method finds out and what
// it does.

// between runs f once in the midst of the first release: the lease is over, and the backend
// has not been asked yet.
func between(f *func()) interlock.ClientOption {
	var once sync.Once
	return interlock.Observe(func(_ context.Context, e interlock.Event) {
		if e.Kind == interlock.EventReleased {
			once.Do(func() { (*f)() })
		}
	})
}

// hook is a context that runs f when it is asked for its error, until f ends it.
type hook struct {
	context.Context
	armed atomic.Bool
	f     func() error
}

func (h *hook) Err() error {
	if h.armed.CompareAndSwap(true, false) {
		return h.f()
	}
	return h.Context.Err()
}

// An eviction that comes while the lease is being released does not keep the lock from the
// next one, and the release has succeeded: the lock was held.
func TestAnEvictionThatMeetsAReleaseKeepsNobodyOut(t *testing.T) {
	for _, name := range allKinds(t) {
		simulatedAs(t, name, func(t *testing.T) {
			w := memlock.NewWorld()
			var evict func()
			a, b := join(t, w, between(&evict)), join(t, w)
			lease := acquire(t, kinds(a.Client)[name].With(interlock.ReportDeath()))
			evict = func() {
				ok(t, b.Admin().Evict(ctx, lease.Name(), lease.ID(), false))
				synctest.Wait()
			}
			ok(t, lease.Release())
			began := time.Now()
			next := acquire(t, rival(b, name).With(interlock.ReportDeath()))
			within(t, began, time.Millisecond, "the next one waited for")
			inherits(t, next, false)
			ok(t, next.Release())
			time.Sleep(2 * ttl) // what is sticky
			nothingLeft(t, a, b)
		})
	}
}

// A session that ends while a lease is being released has taken the lock along: whoever
// released it cannot know that it was held until then.
func TestASessionThatEndsDuringAReleaseIsALoss(t *testing.T) {
	for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}} {
		simulated(t, func(t *testing.T) {
			w := memlock.NewWorld()
			var expire func()
			a, b := join(t, w, between(&expire)), join(t, w)
			lease := acquire(t, a.Mutex("m", opts...))
			expire = func() {
				a.faults().Expire()
				synctest.Wait()
			}
			wantErr(t, lease.Release(), interlock.ErrLost)
			ok(t, acquire(t, b.Mutex("m")).Release())
			nothingLeft(t, a, b)
		})
	}
}

// A Close that comes while a lease is being released waits for that release, which
// succeeds and is clean.
func TestACloseThatMeetsAReleaseLeavesItToIt(t *testing.T) {
	for _, name := range allKinds(t) {
		simulatedAs(t, name, func(t *testing.T) {
			w := memlock.NewWorld()
			var end func()
			a, b := join(t, w, between(&end)), join(t, w)
			lease := acquire(t, kinds(a.Client)[name].With(interlock.ReportDeath()))
			var closed <-chan error
			end = func() { closed = does(a.Close) }
			ok(t, lease.Release())
			ok(t, <-closed)
			next := acquire(t, kinds(b.Client)[name].With(interlock.ReportDeath()))
			inherits(t, next, false)
			ok(t, next.Release())
			ok(t, lease.Release()) // says the same again
			time.Sleep(2 * ttl)
			nothingLeft(t, b)
		})
	}
}

// A lock that somebody else asks for while the last lease of a sticky one is being released
// is not kept.
func TestAStickyLockThatIsWantedDuringAReleaseIsNotKept(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		var want func()
		a, b := join(t, w, between(&want)), join(t, w)
		lease := acquire(t, a.Mutex("m", interlock.Sticky()))
		var waits <-chan result
		want = func() {
			waits = async(ctx, b.Mutex("m"))
		}
		ok(t, lease.Release())
		now(t, waits, "the lock is kept").release(t)
		nothingLeft(t, a, b)
	})
}

// The contexts of a holder end before the next one of the same process begins, however the
// next one comes by the lock.
func TestContextsEndBeforeTheNextOfTheProcessBegins(t *testing.T) {
	for _, opts := range [][]interlock.Option{nil, {interlock.Sticky()}, {interlock.StrictOrder()}} {
		for waiting := range 2 {
			simulated(t, alone(func(t *testing.T, a member) {
				l := a.Mutex("m", opts...)
				lease := acquire(t, l)
				var served []<-chan result
				d := &door{Context: ctx, f: func() { // the contexts are about to end
					served = append(served, async(ctx, l))
					for _, c := range served {
						failIf(t, len(c) > 0, "the next one has begun")
					}
				}}
				_, cancel := lease.Bind(d)
				defer cancel()
				for range waiting {
					served = append(served, async(ctx, l))
				}
				d.armed.Store(true)
				ok(t, lease.Release())
				failIf(t, d.armed.Load(), "the context has not ended with Release")
				for _, c := range served {
					turn(t, c)
				}
				time.Sleep(2 * ttl)
			}))
		}
	}
}

// A grant that is lost before its driver, who has given up, passes it on is not passed on.
func TestALostGrantIsNotPassedOn(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		judge := &referee{t: t}
		waiting, cancel := context.WithCancel(ctx)
		h := &hook{Context: waiting}
		h.f = func() error {
			evict(t, b, "m", false)
			synctest.Wait()
			cancel()
			return context.Canceled
		}
		join := a.faults().After("Join", 1).Hang()
		drives := async(h, a.Mutex("m"))
		<-join.Reached()
		behind := async(ctx, a.Mutex("m"))
		leave := a.faults().Before("Leave", 1).Hang()
		h.armed.Store(true)
		join.Deliver()
		wantErr(t, (<-drives).err, context.Canceled)
		next := async(ctx, b.Mutex("m"))
		serve := func(r result) {
			ok(t, r.err)
			judge.enter(r.lease)
			time.Sleep(time.Second)
			judge.Leave(r.lease)
			_ = r.lease.Release()
		}
		var served sync.WaitGroup
		synctest.Wait()
		served.Go(func() { serve(<-behind) })
		synctest.Wait() // it holds the lock, if it was passed on
		leave.Deliver()
		served.Go(func() { serve(<-next) })
		served.Wait()
	}))
}

// A grant of ExpiresAfter that arrives while its session ends does not end with the session.
func TestAHoldThatIsGrantedAsItsSessionEndsIsKept(t *testing.T) {
	for range 10 { // the leases of a session are lost in no order
		simulated(t, both(func(t *testing.T, a, b member) {
			join := a.faults().After("Join", 11).Stick()
			stop := &door{Context: ctx, f: func() {
				join.Deliver()
				synctest.Wait()
			}}
			for range 10 {
				_, cancel := acquire(t, a.Semaphore("s", 10)).Bind(stop)
				defer cancel()
			}
			waits := async(ctx, a.Mutex("m", interlock.ExpiresAfter(time.Hour)))
			<-join.Reached()
			stop.armed.Store(true)
			a.faults().Expire()
			r := served(t, waits)
			time.Sleep(time.Nanosecond) // until everybody was told
			ok(t, r.lease.Err())
			ok(t, r.lease.Release())
			ok(t, acquire(t, b.Mutex("m", interlock.Wait(time.Second))).Release())
		}))
	}
}

// door is a context that runs f once when a context that was made of it ends.
type door struct {
	context.Context
	armed atomic.Bool
	f     func()
}

func (d *door) Done() <-chan struct{} {
	if d.armed.CompareAndSwap(true, false) {
		d.f()
	}
	return d.Context.Done()
}

// A lease of ExpiresAfter that is lost while it is being extended does not stay for the new time
// once it is released.
func TestAHoldThatIsLostWhileItIsExtendedIsGivenBack(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(10*time.Second)))
		reply := a.faults().After("Keep", 1).Stick()
		extended := does(func() error { return lease.Extend(ctx, time.Hour) })
		<-reply.Reached()
		<-lease.Done()
		time.Sleep(ttl)
		reply.Deliver()
		wantErr(t, <-extended, interlock.ErrLost)
		wantErr(t, lease.Release(), interlock.ErrLost)
		began := time.Now()
		next := acquire(t, b.Mutex("m"))
		within(t, began, ttl, "it stood for")
		ok(t, next.Release())
	}))
}

// A renewal that crosses the end of a lease of AtLeast does not end what is kept.
func TestARenewalThatCrossesAReleaseEndsNothing(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		began := time.Now()
		lease := acquire(t, a.Mutex("m", interlock.AtLeast(time.Minute)))
		time.Sleep(ttl / 15)
		keep := a.faults().Before("Keep", 1).Hang()
		renew := a.faults().After("Renew", 1).Hang()
		go lease.Release()
		<-keep.Reached()
		<-renew.Reached() // it did not name the ticket, which stood still
		keep.Deliver()
		synctest.Wait()
		renew.Deliver()
		next := acquire(t, b.Mutex("m"))
		failIf(t, time.Since(began) < time.Minute, "kept out for %v", time.Since(began))
		ok(t, next.Release())
	}))
}

// A writer that is acquired again by its holder and a downgrade of the same lease do not
// both succeed: the nested lease would not be exclusive.
func TestADowngradeAndANestedWriterDoNotBothSucceed(t *testing.T) {
	check := func(t *testing.T, nested *interlock.Lease, nest, down error) {
		t.Helper()
		switch {
		case nest == nil && down == nil:
			t.Errorf("both succeeded; the nested writer is exclusive: %v", nested.Exclusive())
		case nest == nil:
			wantErr(t, down, interlock.ErrInvalid)
			failIf(t, !nested.Exclusive(), "the nested writer is not exclusive")
		default:
			ok(t, down)
			wantErr(t, nest, interlock.ErrDeadlock)
		}
		if nested != nil {
			ok(t, nested.Release())
		}
	}
	simulatedAs(t, "in the midst", alone(func(t *testing.T, a member) {
		rw := a.RWMutex("rw", interlock.Reentrant())
		lease := acquire(t, rw.Writer())
		held := bind(t, lease)
		var nested *interlock.Lease
		var nest error
		h := &hook{Context: ctx}
		h.f = func() error { nested, nest = rw.Writer().Acquire(held); return nil }
		h.armed.Store(true)
		down := lease.Downgrade(h)
		check(t, nested, nest, down)
		ok(t, lease.Release())
	}))
	t.Run("at once", func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		rw := a.RWMutex("rw", interlock.Reentrant())
		for range 2000 {
			lease := acquire(t, rw.Writer())
			held, cancel := lease.Bind(ctx)
			var nested *interlock.Lease
			var nest error
			var wg sync.WaitGroup
			wg.Go(func() { nested, nest = rw.Writer().Acquire(held) })
			down := lease.Downgrade(ctx)
			finish(t, "the nested acquire", &wg)
			check(t, nested, nest, down)
			ok(t, lease.Release())
			cancel()
		}
	})
}

func allKinds(t *testing.T) []string {
	return slices.Collect(maps.Keys(kinds(client(t, memlock.New()))))
}

// A goroutine that is to replace a ticket that serves no more, and gives up at the same
// moment, gives that ticket back: nobody else knows of it, and it would be renewed for ever.
func TestATicketOfADriverThatGivesUpIsGivenBack(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the waiter runs when both have happened
	gaveUp := 0
	for range 30 {
		simulated(t, both(func(t *testing.T, a, b member) {
			waiting, cancel := context.WithCancel(ctx)
			drives, stop := context.WithCancel(ctx)
			h := &hook{Context: drives}
			h.f = func() error { // it has the lock, which the next one may not have of it
				ok(t, b.Admin().Revoke(ctx, "m", holder(t, b, "m").ID))
				synctest.Wait()
				stop()
				cancel()
				return context.Canceled
			}
			join := a.faults().After("Join", 1).Hang()
			first := async(h, a.Mutex("m"))
			<-join.Reached()
			second := async(waiting, a.Mutex("m"))
			h.armed.Store(true)
			join.Deliver()
			wantErr(t, (<-first).err, context.Canceled)
			if r := <-second; r.err == nil {
				ok(t, r.lease.Release())
			} else {
				wantErr(t, r.err, context.Canceled)
				gaveUp++
			}
		}))
	}
	failIf(t, gaveUp == 0, "nobody gave up")
}
