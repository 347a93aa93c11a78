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
				wg.Go(func() {
					if err := a.Mutex("m", opts...).Do(ctx, func(held context.Context) error {
						lease, _ := a.Mutex("m").Held(held)
						judge.enter(lease)
						defer judge.leave(lease)
						return nil
					}); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			ok(t, holder.Release())
			wg.Wait()
			exchanges := a.Admin().Exchanges() - before
			if name == "shared" && exchanges > 2 || name == "strict" && exchanges < 2*n {
				t.Errorf("%s: %d exchanges for %d grants", name, exchanges, n)
			}
		}))
	}
}

// While another client waits, goroutines hand a lock on among themselves only
// so often, and only so long.
func TestHandOverIsBoundedWhileOthersWait(t *testing.T) {
	for name, work := range map[string]time.Duration{"in number": time.Microsecond, "in time": 30 * time.Millisecond} {
		simulatedAs(t, name, both(func(t *testing.T, a, b member) {
			judge := &referee{t: t}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					for !ended(stop) {
						lease, err := a.Mutex("m").Acquire(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						judge.enter(lease)
						time.Sleep(work)
						judge.leave(lease)
						_ = lease.Release()
					}
				})
			}
			for range 8 {
				time.Sleep(7 * time.Millisecond)
				before, began := judge.count(), time.Now()
				lease := acquire(t, b.Mutex("m"))
				judge.enter(lease)
				if n := judge.count() - before; n > interlock.MaxHandovers+2 {
					t.Errorf("%d grants to others meanwhile", n)
				}
				within(t, began, 200*time.Millisecond, "waited for")
				judge.leave(lease)
				ok(t, lease.Release())
			}
			close(stop)
			wg.Wait()
		}))
	}
}

// The bound in time holds though the backend never tells that somebody waits.
func TestHandOverIsBoundedWithoutTheSignal(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		a.faults().Before("Signals", 0).Hang()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for !ended(stop) {
					_ = a.Mutex("m").Do(ctx, func(context.Context) error { time.Sleep(time.Millisecond); return nil })
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		lease := acquire(t, b.Mutex("m"))
		within(t, began, 200*time.Millisecond, "waited for")
		ok(t, lease.Release())
		close(stop)
		wg.Wait()
	}))
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
				synctest.Wait()
			}
			ok(t, holder.Release())
			tokens := map[uint64]bool{holder.BackendToken(): true}
			for i, w := range waits {
				r := served(t, w)
				for _, later := range waits[i+1:] {
					notYet(t, later, "out of order")
				}
				if tokens[r.lease.BackendToken()] {
					t.Error("a ticket served two")
				}
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
		synctest.Wait()
		ok(t, lease.Release())
		r := served(t, waits)
		waiting := async(ctx, b.Mutex("m"))
		synctest.Wait()
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
				for q, err := range b.Admin().Queues(ctx, "") {
					ok(t, err)
					ok(t, b.Admin().Evict(ctx, q.Name, q.Holders[0].ID, false))
				}
				synctest.Wait()
			},
			"revoked": func() {
				for q, err := range b.Admin().Queues(ctx, "") {
					ok(t, err)
					ok(t, b.Admin().Revoke(ctx, q.Name, q.Holders[0].ID))
				}
				synctest.Wait()
			},
			"expired": func() { a.faults().Expire(); synctest.Wait() },
		} {
			first := acquire(t, l)
			ok(t, first.Release())
			fail()
			a.faults().Clear()
			again := acquire(t, l)
			if again.BackendToken() == first.BackendToken() {
				t.Errorf("%s: the ticket was kept", name)
			}
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
				judge.leave(lease)
				tickets[lease.BackendToken()]++
				if lease.Token()>>interlock.TokenBits != lease.BackendToken() {
					t.Fatalf("token %d of backend token %d", lease.Token(), lease.BackendToken())
				}
				ok(t, lease.Release())
			}
			for token, n := range tickets {
				if n > interlock.MaxGrants {
					t.Errorf("ticket %d served %d times", token, n)
				}
			}
		}
		time.Sleep(2 * ttl)
	}))
}

// Readers share one ticket, in the same way; a shared ticket is used up too.
func TestReadersOfOneClientShareATicket(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		l := a.RWMutex("rw").Reader()
		first := acquire(t, l)
		before := a.Admin().Exchanges()
		var leases []*interlock.Lease
		for range 100 {
			leases = append(leases, acquire(t, l))
		}
		costs(t, a, before, 0)
		ok(t, first.Release())
		for _, lease := range leases {
			ok(t, lease.Err())
			ok(t, lease.Release())
		}
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
				synctest.Wait()
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
		synctest.Wait()
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
		gaveUp, served := make(chan error, 1), make(chan struct{})
		go func() {
			_, err := a.Mutex("m").Acquire(between)
			gaveUp <- err
		}()
		synctest.Wait()
		go func() {
			lease := acquire(t, a.Mutex("m"))
			close(served)
			ok(t, lease.Release())
		}()
		synctest.Wait()
		go func() { ok(t, holder.Release()) }()
		synctest.Wait()
		cancel()
		if err := <-gaveUp; err == nil {
			t.Error("a cancelled acquire has the lock")
		}
		synctest.Wait()
		select {
		case <-served:
			t.Error("another one holds while the lock is being released")
		default:
		}
		close(releasing)
		<-served
		synctest.Wait()
	})
}
