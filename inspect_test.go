package interlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

func TestQueuesShowHoldersAndWaiters(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a := join(t, w, interlock.Owner("a"), interlock.Prefix("app/"))
		b := join(t, w, interlock.Owner("b"), interlock.Prefix("app/"))
		other := join(t, w, interlock.Prefix("other/"))
		lease := acquire(t, a.Semaphore("jobs/1", 3, interlock.Weight(2), interlock.Note("indexing")))
		fixed := acquire(t, a.Mutex("jobs/2", interlock.Hold(time.Hour)))
		waits := async(ctx, b.Semaphore("jobs/1", 3, interlock.Weight(3)))
		acquire(t, other.Mutex("jobs/3"))
		acquire(t, a.Mutex("else"))
		synctest.Wait()
		var names []string
		for q, err := range b.Queues(ctx, "jobs/") {
			ok(t, err)
			names = append(names, q.Name)
			if q.Name != "jobs/1" {
				continue
			}
			if q.Kind != "semaphore" || q.Capacity != 3 || len(q.Holders) != 1 || len(q.Waiters) != 1 {
				t.Fatalf("%+v", q)
			}
			h, w := q.Holders[0], q.Waiters[0]
			if h.Owner != "a" || h.Note != "indexing" || h.Units != 2 || h.Token != lease.Token() || h.Fixed {
				t.Errorf("%+v", h)
			}
			if w.Owner != "b" || w.Units != 3 || w.Token != 0 {
				t.Errorf("%+v", w)
			}
			if d := time.Until(h.Until); d != ttl {
				t.Errorf("it stands for %v", d)
			}
		}
		if len(names) != 2 || names[0] != "jobs/1" || names[1] != "jobs/2" {
			t.Errorf("queues %v", names)
		}
		ok(t, lease.Release())
		r := <-waits
		ok(t, r.err)
		ok(t, r.lease.Release())
		ok(t, fixed.Release())
	})
}

// One look at one lock is an exchange for the lock, and one for the records of work that overruns.
func TestALockIsLookedAtOnce(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, b := join(t, w, interlock.Prefix("app/")), join(t, w, interlock.Prefix("app/"))
		q, err := b.Queue(ctx, "m")
		if ok(t, err); q.Name != "m" || q.Kind != "" || len(q.Holders)+len(q.Waiters) > 0 {
			t.Errorf("nobody holds it: %+v", q)
		}
		lease := acquire(t, a.Mutex("m", interlock.Note("why")))
		waits := async(ctx, b.Mutex("m"))
		synctest.Wait()
		before := b.Exchanges()
		q, err = b.Queue(ctx, "m")
		ok(t, err)
		if n := b.Exchanges() - before; n != 2 {
			t.Errorf("%d exchanges", n)
		}
		if q.Name != "m" || q.Kind != "mutex" || q.Capacity != 1 || len(q.Holders) != 1 || len(q.Waiters) != 1 || q.Holders[0].Token != lease.Token() || q.Holders[0].Note != "why" {
			t.Errorf("%+v", q)
		}
		b.faults().After("Follow", 1).Fail() // it looks again
		_, err = b.Queue(ctx, "m")
		ok(t, err)
		_, err = b.Queue(ctx, "a//b")
		wantErr(t, err, interlock.ErrInvalid)
		ok(t, lease.Release())
		r := <-waits
		ok(t, r.err)
		ok(t, r.lease.Release())
		nothingLeft(t, a, b)
	})
}

// Follow may skip states, but never misses the last.
func TestFollowNeverMissesTheLastState(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		follow, stop := context.WithCancel(ctx)
		last := make(chan interlock.Queue, 1)
		ends := make(chan struct{})
		go func() {
			defer close(ends)
			for q, err := range b.Follow(follow, "m") {
				if err != nil {
					t.Error(err)
				}
				select {
				case <-last:
				default:
				}
				last <- q
			}
		}()
		for range 50 {
			lease := acquire(t, a.Mutex("m"))
			synctest.Wait()
			if q := <-last; len(q.Holders) != 1 || q.Holders[0].Token != lease.Token() || q.Name != "m" {
				t.Fatalf("%+v", q)
			}
			b.faults().After("Follow", 1).Fail() // it starts again by itself
			ok(t, lease.Release())
			time.Sleep(time.Second)
			if q := <-last; len(q.Holders) != 0 {
				t.Fatalf("%+v", q)
			}
		}
		stop()
		<-ends
	})
}

// A raise of all names is one of those with other prefixes, too, and of those that were never used.
func TestRaiseTokensIsForAllNames(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, b := join(t, w, interlock.Prefix("app/")), join(t, w)
		held := acquire(t, a.Mutex("held"))
		waits := async(ctx, a.Mutex("held", interlock.StrictOrder()))
		ok(t, acquire(t, b.Mutex("used")).Release())
		token := held.Token()
		floor := interlock.TokenAt(time.Now())
		ok(t, a.RaiseTokens(ctx, floor))
		if held.Token() != token {
			t.Errorf("the token of a lease became %d after %d", held.Token(), token)
		}
		ok(t, held.Release())
		waited, done := got(waits)
		if !done || waited.err != nil {
			t.Fatalf("the waiter is not granted: %v", waited.err)
		}
		later := []*interlock.Lease{waited.lease, acquire(t, b.Mutex("used")), acquire(t, a.Mutex("never"))}
		for _, l := range later {
			if l.Token() <= floor {
				t.Errorf("a token is %d, the floor %d", l.Token(), floor)
			}
			ok(t, l.Release())
		}
	})
}

// The context ends while a change waits for a reader that is still busy with the one before.
func TestFollowEndsWithItsContextWhateverIsUnderWay(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		following, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			var lease *interlock.Lease
			for _, err := range b.Follow(following, "m") {
				switch {
				case err != nil:
					t.Error(err)
				case lease == nil:
					lease = acquire(t, a.Mutex("m"))
				case following.Err() == nil:
					ok(t, lease.Release())
					synctest.Wait()
					cancel()
					synctest.Wait()
				}
			}
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("it goes on; its context: %v", following.Err())
		}
	})
}
