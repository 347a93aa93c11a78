package interlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// A downgrade lets the waiting readers in, and no writer; a writer of the same
// client that waits is served afterwards.
func TestDowngrade(t *testing.T) {
	for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}, {interlock.Sticky()}} {
		simulated(t, func(t *testing.T) {
			a, b := pair(t)
			lease := acquire(t, a.RWMutex("rw", opts...).Writer())
			readers := []<-chan result{async(ctx, b.RWMutex("rw").Reader())}
			synctest.Wait()
			readers = append(readers, async(ctx, a.RWMutex("rw").Reader()))
			synctest.Wait()
			writers := []<-chan result{async(ctx, a.RWMutex("rw", opts...).Writer())}
			synctest.Wait()
			writers = append(writers, async(ctx, b.RWMutex("rw").Writer()))
			synctest.Wait()

			token := lease.Token()
			ok(t, lease.Downgrade(ctx))
			ok(t, lease.Downgrade(ctx)) // changes nothing more
			if lease.Exclusive() || lease.Token() != token {
				t.Errorf("exclusive %v, token %d after %d", lease.Exclusive(), lease.Token(), token)
			}
			var in []*interlock.Lease
			for _, c := range readers {
				r, done := got(c)
				if !done {
					t.Fatal("a waiting reader did not get in")
				}
				ok(t, r.err)
				in = append(in, r.lease)
			}
			for _, c := range writers {
				if _, done := got(c); done {
					t.Fatal("a writer got in")
				}
			}
			time.Sleep(3 * ttl)
			ok(t, lease.Err())
			ok(t, lease.Release())
			for _, lease := range in {
				ok(t, lease.Release())
			}
			var served sync.WaitGroup
			for _, c := range writers {
				served.Go(func() {
					if r := <-c; r.err != nil || r.lease.Release() != nil {
						t.Error("a writer was not served")
					}
				})
			}
			served.Wait()
			time.Sleep(2 * ttl)
			nothingLeft(t, a, b)
		})
	}
}

// When it is not known whether a downgrade took effect, the lease is a
// reader's.
func TestAnAmbiguousDowngradeIsAReaders(t *testing.T) {
	for _, after := range []bool{true, false} {
		simulated(t, func(t *testing.T) {
			a, b := pair(t)
			rw := a.RWMutex("rw")
			lease := acquire(t, rw.Writer())
			held, cancel := lease.Bind(ctx)
			defer cancel()
			if after {
				a.faults().After("Shrink", 0).Fail()
			} else {
				a.faults().Before("Shrink", 0).Fail()
			}
			short, end := context.WithTimeout(ctx, time.Second)
			defer end()
			wantErr(t, lease.Downgrade(short), context.DeadlineExceeded)
			if _, writes := rw.Writer().Held(held); writes || lease.Exclusive() {
				t.Error("a writer's still")
			}
			a.faults().Clear()
			ok(t, lease.Downgrade(ctx)) // again, until it is confirmed
			beside, err := b.RWMutex("rw").Reader().TryAcquire(ctx)
			ok(t, err)
			ok(t, beside.Release())
			ok(t, lease.Release())
			nothingLeft(t, a, b)
		})
	}
}

func TestDowngradeIsRefused(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		lease := acquire(t, a.Mutex("m"))
		wantErr(t, lease.Downgrade(ctx), interlock.ErrInvalid)
		ok(t, lease.Release())
		rw := a.RWMutex("rw", interlock.Reentrant())
		outer := acquire(t, rw.Writer())
		held, cancel := outer.Bind(ctx)
		defer cancel()
		inner, err := rw.Reader().Acquire(held)
		ok(t, err)
		wantErr(t, outer.Downgrade(ctx), interlock.ErrInvalid)
		ok(t, inner.Release())
		ok(t, outer.Downgrade(ctx))
		ok(t, outer.Release())
		wantErr(t, outer.Downgrade(ctx), interlock.ErrReleased)
		reader := acquire(t, rw.Reader())
		ok(t, reader.Downgrade(ctx))
		ok(t, reader.Release())
		nothingLeft(t, a)
	})
}

// A downgraded lease is renewed, and lost like any other.
func TestADowngradedLeaseCanBeLost(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.RWMutex("rw").Writer())
		ok(t, lease.Downgrade(ctx))
		a.faults().Before("Renew", 0).Fail()
		next := acquire(t, b.RWMutex("rw").Writer())
		wantErr(t, lease.Err(), interlock.ErrLost)
		wantErr(t, lease.Release(), interlock.ErrLost)
		ok(t, next.Release())
	})
}

// Once a writer has become a reader, it keeps no readers of its client apart: they share a
// ticket.
func TestADowngradedLeaseKeepsNoReadersApart(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		rw := a.RWMutex("rw")
		lease := acquire(t, rw.Writer())
		ok(t, lease.Downgrade(ctx))
		first := acquire(t, rw.Reader())
		before := a.Exchanges()
		for range 10 {
			ok(t, acquire(t, rw.Reader()).Release())
		}
		if n := a.Exchanges() - before; n > 0 {
			t.Errorf("%d exchanges for readers beside each other", n)
		}
		ok(t, first.Release())
		ok(t, lease.Release())
		nothingLeft(t, a)
	})
}

// A downgrade without an answer can be repeated, though its holder has acquired the reader's
// side again in between.
func TestADowngradeIsRepeatedBesideANestedReader(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		rw := a.RWMutex("rw", interlock.Reentrant())
		lease := acquire(t, rw.Writer())
		held, cancel := lease.Bind(ctx)
		defer cancel()
		a.faults().Before("Shrink", 0).Fail()
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		wantErr(t, lease.Downgrade(short), context.DeadlineExceeded)
		a.faults().Clear()
		nested, err := rw.Reader().Acquire(held)
		ok(t, err)
		ok(t, lease.Downgrade(ctx))
		beside, err := b.RWMutex("rw").Reader().TryAcquire(ctx)
		ok(t, err)
		for _, l := range []*interlock.Lease{beside, nested, lease} {
			ok(t, l.Release())
		}
		nothingLeft(t, a, b)
	})
}
