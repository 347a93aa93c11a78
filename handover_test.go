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

// Goroutines of one client pay for one acquire at the backend together.
func TestGoroutinesOfOneClientShareATicket(t *testing.T) {
	for name, opts := range map[string][]interlock.Option{"shared": nil, "strict": {interlock.StrictOrder()}} {
		simulated(t, alone(func(t *testing.T, a member) {
			judge := &referee{t: t}
			holder := acquire(t, a.Mutex("m", opts...))
			const n = 100
			before := a.Admin().Exchanges()
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { errtest.Is(t, judge.hold(a.Mutex("m", opts...), 0), nil) })
			}
			synctest.Wait()
			ok(t, holder.Release())
			wg.Wait()
			exchanges := a.Admin().Exchanges() - before
			failIf(t, name == "shared" && exchanges > 2 || name == "strict" && exchanges < 2*n, "%s: %d exchanges for %d grants", name, exchanges, n)
		}))
	}
}

// While another client waits, goroutines hand a lock on among themselves only so often, and only so long, the latter
// though the backend never tells that somebody waits.
func TestHandOverIsBoundedWhileOthersWait(t *testing.T) {
	for name, c := range map[string]struct {
		work time.Duration
		deaf bool
	}{"in number": {time.Microsecond, false}, "in time": {30 * time.Millisecond, false}, "without the signal": {5 * time.Millisecond, true}} {
		simulatedAs(t, name, both(func(t *testing.T, a, b member) {
			judge := &referee{t: t}
			if c.deaf {
				a.faults().Before("Signals", 0).Hang()
			}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					for !ended(stop) && judge.hold(a.Mutex("m"), c.work) == nil {
					}
				})
			}
			for range 8 {
				time.Sleep(7 * time.Millisecond)
				before, began := judge.grants.Load(), time.Now()
				ok(t, judge.hold(b.Mutex("m"), 0))
				n := judge.grants.Load() - before
				failIf(t, n > interlock.MaxHandovers+2, "%d grants meanwhile", n)
				within(t, began, 200*time.Millisecond, "waited for")
			}
			close(stop)
			wg.Wait()
		}))
	}
}

// Tickets of these are never shared: who came first at the backend is served
// first, whatever its process.
func TestSomeLocksAreNeverHandedOver(t *testing.T) {
	for name, lock := range map[string]func(*interlock.Client) *interlock.Lock{
		"strict":    func(c *interlock.Client) *interlock.Lock { return c.Mutex("m", interlock.StrictOrder()) },
		"fixed":     func(c *interlock.Client) *interlock.Lock { return c.Mutex("m", interlock.ExpiresAfter(time.Hour)) },
		"at least":  func(c *interlock.Client) *interlock.Lock { return c.Mutex("m", interlock.AtLeast(1)) },
		"at most":   func(c *interlock.Client) *interlock.Lock { return c.Mutex("m", interlock.AtMost(time.Hour)) },
		"permits":   func(c *interlock.Client) *interlock.Lock { return c.Semaphore("m", 1) },
		"candidate": func(c *interlock.Client) *interlock.Lock { return c.Election("m").Candidate("") },
	} {
		simulatedAs(t, name, both(func(t *testing.T, a, b member) {
			holder := acquire(t, lock(a.Client))
			var waits []<-chan result
			for i := range 6 {
				m := a
				if i%2 == 0 {
					m = b
				}
				waits = append(waits, async(ctx, lock(m.Client)))
			}
			ok(t, holder.Release())
			tokens := map[uint64]bool{holder.BackendToken(): true}
			for i, w := range waits {
				r := served(t, w)
				for _, later := range waits[i+1:] {
					notYet(t, later, "out of order")
				}
				failIf(t, tokens[r.lease.BackendToken()], "a ticket served two")
				tokens[r.lease.BackendToken()] = true
				ok(t, r.lease.Release())
			}
			time.Sleep(time.Second)
		}))
	}
}

// A sticky lock costs no exchange while nobody else wants it, is recalled at
// once when somebody does, and is not kept for ever.
func TestSticky(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		l := a.Mutex("m", interlock.Sticky())
		ok(t, acquire(t, l).Release())
		before := a.Admin().Exchanges()
		for range 1000 {
			ok(t, acquire(t, l).Release())
			ok(t, errtest.Must(l.TryAcquire(ctx))(t).Release())
		}
		costs(t, a, before, 0)
		began := time.Now()
		lease := acquire(t, b.Mutex("m"))
		within(t, began, 0, "recalled after")
		waits := async(ctx, l)
		ok(t, lease.Release())
		r := served(t, waits)
		waiting := async(ctx, b.Mutex("m"))
		ok(t, r.lease.Release()) // wanted meanwhile: not kept
		turn(t, waiting)

		ok(t, acquire(t, l).Release())
		time.Sleep(2 * ttl)
	}))
}

// An idle sticky lock is not handed out when it may be lost.
func TestAnIdleStickyLockIsJudged(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		l := a.Mutex("m", interlock.Sticky())
		for name, fail := range map[string]func(){
			"lost":     func() { a.faults().Before("Renew", 0).Fail(); time.Sleep(2 * ttl) },
			"in doubt": func() { a.faults().Before("Renew", 0).Fail(); time.Sleep(6 * time.Second) },
			"evicted": func() {
				evict(t, b, "m", false)
				synctest.Wait()
			},
			"revoked": func() {
				ok(t, b.Admin().Revoke(ctx, "m", holder(t, b, "m").ID))
				synctest.Wait()
			},
			"expired": func() { a.faults().Expire(); synctest.Wait() },
		} {
			first := acquire(t, l)
			ok(t, first.Release())
			fail()
			a.faults().Clear()
			again := acquire(t, l)
			failIf(t, again.BackendToken() == first.BackendToken(), "%s: the ticket was kept", name)
			ok(t, again.Release())
			time.Sleep(3 * ttl)
			nothingLeft(t, a, b)
		}
	}))
}

// 4,096 local grants have a number; then the ticket goes back.
func TestTokensGrowOverLocalGrants(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		for name, opts := range map[string][]interlock.Option{
			"handed over": nil, "sticky": {interlock.Sticky()}, "strict": {interlock.StrictOrder()},
		} {
			judge := &referee{t: t}
			l := a.Mutex(name, opts...)
			tickets := map[uint64]int{}
			for range 2*interlock.MaxGrants + 10 {
				lease := errtest.Must(l.TryAcquire(ctx))(t) // it never finds its own ticket in the way
				judge.enter(lease)
				judge.Leave(lease)
				tickets[lease.BackendToken()]++
				fatalIf(t, lease.Token()>>interlock.TokenBits != lease.BackendToken(), "token %d of backend token %d", lease.Token(), lease.BackendToken())
				ok(t, lease.Release())
			}
			for token, n := range tickets {
				failIf(t, n > interlock.MaxGrants, "ticket %d served %d times", token, n)
			}
		}
		time.Sleep(2 * ttl)
	}))
}

// A new reader does not join the readers of its client while a writer waits:
// neither one of another client, nor one of its own.
func TestAReaderDoesNotPassAWaitingWriter(t *testing.T) {
	for _, own := range []bool{true, false} {
		for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}, {interlock.ReportDeath()}} {
			simulated(t, both(func(t *testing.T, a, b member) {
				m := b
				if own {
					m = a
				}
				if own { // known without the backend's word
					a.faults().Before("Signals", 0).Hang()
					a.faults().Expire()
					time.Sleep(ttl)
				}
				reader := a.RWMutex("rw").Reader()
				first := acquire(t, reader)
				writes := async(ctx, m.RWMutex("rw", opts...).Writer())
				reads := async(ctx, reader)
				notYet(t, reads, "a reader has passed the writer")
				wantErr(t, errOf(reader.TryAcquire(ctx)), interlock.ErrBusy)
				ok(t, first.Release())
				w := served(t, writes)
				notYet(t, reads, "a reader beside a writer")
				ok(t, w.lease.Release())
				turn(t, reads)
			}))
		}
	}
}

// Readers of a sticky lock do not keep it while a writer of their own client waits, though
// the backend has not told them.
func TestStickyReadersAreNotKeptFromAWriterOfTheirClient(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		a.faults().Before("Signals", 0).Hang()
		a.faults().Expire()
		time.Sleep(ttl)
		rw := a.RWMutex("rw", interlock.Sticky())
		reader := acquire(t, rw.Reader())
		writes := async(ctx, rw.Writer())
		ok(t, reader.Release())
		now(t, writes, "the readers' ticket is kept").release(t)
	})
}

// Promise: who waits is served when the release of the last holder has come so far that its bound contexts have ended,
// also if the one in between gave up as it was handed the lock.
func TestNobodyIsServedDuringARelease(t *testing.T) {
	simulated(t, func(t *testing.T) {
		releasing := make(chan struct{})
		first := true
		a := join(t, memlock.NewWorld(), interlock.Observe(func(_ context.Context, e interlock.Event) {
			if e.Kind == interlock.EventReleased && first {
				first = false
				<-releasing
			}
		}))
		holder := acquire(t, a.Mutex("m"))
		between, cancel := context.WithCancel(ctx)
		gaveUp, next := async(between, a.Mutex("m")), async(ctx, a.Mutex("m"))
		released := does(holder.Release)
		cancel()
		wantErr(t, (<-gaveUp).err, context.Canceled)
		notYet(t, next, "another one holds while the lock is being released")
		close(releasing)
		turn(t, next)
		ok(t, <-released)
	})
}
