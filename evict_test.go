package interlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
)

// An eviction asks first: the lock passes on when the holder has released it.
func TestEvictionWaitsForTheHolder(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Mutex("m"))
		bound, cancel := lease.Bind(ctx)
		defer cancel()
		next := async(ctx, b.Mutex("m"))
		synctest.Wait()
		ok(t, b.Evict(ctx, "m", lease.ID(), false))
		<-bound.Done()
		wantErr(t, context.Cause(bound), interlock.ErrLost)
		wantErr(t, lease.Err(), interlock.ErrEvicted)
		time.Sleep(5 * time.Second) // the holder is still at work
		if _, done := got(next); done {
			t.Fatal("passed on before the holder was done")
		}
		wantErr(t, lease.Release(), interlock.ErrLost)
		r, done := got(next)
		if !done {
			t.Fatal("not passed on when the holder was done")
		}
		ok(t, r.err)
		ok(t, r.lease.Release())
		wantErr(t, b.Evict(ctx, "m", lease.ID(), false), interlock.ErrLost)
		nothingLeft(t, a, b)
	})
}

// A holder that does not answer is waited for until its TTL has run out.
func TestEvictionWaitsNoLongerThanTheTTL(t *testing.T) {
	for name, hold := range map[string][]interlock.Option{"renewed": nil, "fixed": {interlock.Hold(time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T) {
				a, b := pair(t)
				lease := acquire(t, a.Mutex("m", hold...))
				began := time.Now()
				next := async(ctx, b.Mutex("m"))
				synctest.Wait()
				ok(t, b.Evict(ctx, "m", lease.ID(), false))
				r := <-next
				ok(t, r.err)
				wantErr(t, lease.Err(), interlock.ErrEvicted)
				if d := time.Since(began); d > ttl || d < ttl/2 {
					t.Errorf("passed on after %v", d)
				}
				ok(t, r.lease.Release())
			})
		})
	}
}

func TestForcePassesTheLockOnAtOnce(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Mutex("m"))
		next := async(ctx, b.Mutex("m"))
		synctest.Wait()
		began := time.Now()
		ok(t, b.Evict(ctx, "m", lease.ID(), true))
		r := <-next
		ok(t, r.err)
		if d := time.Since(began); d > 0 {
			t.Errorf("passed on after %v", d)
		}
		if r.lease.Token() <= lease.Token() {
			t.Error("the late write of the old holder would not be refused")
		}
		synctest.Wait()
		wantErr(t, lease.Release(), interlock.ErrLost)
		ok(t, r.lease.Release())
		nothingLeft(t, a, b)
	})
}

// A waiter that is evicted lines up again, at the end, and an event says so.
func TestAnEvictedWaiterRejoins(t *testing.T) {
	simulated(t, func(t *testing.T) {
		rejoined := make(chan interlock.Event, 1)
		observe := interlock.Observe(func(_ context.Context, e interlock.Event) {
			if e.Kind == interlock.EventRejoined {
				rejoined <- e
			}
		})
		a, b := pair(t, observe)
		holder := acquire(t, b.Mutex("m"))
		first := async(ctx, a.Mutex("m"))
		synctest.Wait()
		second := async(ctx, b.Mutex("m", interlock.StrictOrder()))
		synctest.Wait()
		for q, err := range b.Queues(ctx, "") {
			ok(t, err)
			ok(t, b.Evict(ctx, "m", q.Waiters[0].ID, false))
		}
		if e := <-rejoined; e.Name != "m" {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Second)
		ok(t, holder.Release())
		r := <-second
		ok(t, r.err)
		if _, done := got(first); done {
			t.Fatal("it kept its place")
		}
		ok(t, r.lease.Release())
		r = <-first
		ok(t, r.err)
		ok(t, r.lease.Release())
		nothingLeft(t, a, b)
	})
}

// Revoke is a request: the lease stays, and the lock is handed on to nobody of
// the same process before the backend is asked.
func TestRevoke(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Mutex("m"))
		asked := lease.Revoked()
		local := async(ctx, a.Mutex("m"))
		synctest.Wait()
		remote := async(ctx, b.Mutex("m"))
		synctest.Wait()
		ok(t, b.Revoke(ctx, "m", lease.ID()))
		<-asked
		<-lease.Revoked()
		ok(t, lease.Err())
		time.Sleep(2 * ttl)
		ok(t, lease.Err())
		ok(t, lease.Release())
		r := <-remote
		ok(t, r.err)
		if _, done := got(local); done {
			t.Fatal("two holders")
		}
		ok(t, r.lease.Release())
		r = <-local
		ok(t, r.err)
		if ended(r.lease.Revoked()) {
			t.Error("a new lease is revoked")
		}
		ok(t, r.lease.Release())
		wantErr(t, b.Revoke(ctx, "m", lease.ID()), interlock.ErrLost)
		nothingLeft(t, a, b)
	})
}

// Inspection shows tickets; their IDs serve as well as those of leases.
func TestTicketsCanBeNamedLikeLeases(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Mutex("m"))
		for q, err := range b.Queues(ctx, "m") {
			ok(t, err)
			ok(t, b.Revoke(ctx, "m", q.Holders[0].ID))
			<-lease.Revoked()
			ok(t, b.Evict(ctx, "m", q.Holders[0].ID, false))
		}
		<-lease.Done()
		wantErr(t, lease.Release(), interlock.ErrEvicted)
	})
}

// What is evicted, and shared, passes on when all its leases have been released: others may
// be at work when the first is.
func TestAnEvictedSharedLockWaitsForAllItsLeases(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		var leases []*interlock.Lease
		for range 3 {
			leases = append(leases, acquire(t, a.RWMutex("m").Reader()))
		}
		held, cancel := leases[2].Bind(ctx)
		defer cancel()
		nested, err := a.RWMutex("m", interlock.Reentrant()).Reader().Acquire(held)
		ok(t, err)
		leases = append(leases, nested)
		next := async(ctx, b.RWMutex("m").Writer())
		synctest.Wait()
		ok(t, b.Evict(ctx, "m", leases[0].ID(), false))
		for i, l := range leases {
			<-l.Done()
			if _, done := got(next); done {
				t.Fatalf("passed on after %d of %d were released", i, len(leases))
			}
			wantErr(t, l.Release(), interlock.ErrEvicted)
		}
		r, done := got(next)
		if !done {
			t.Fatal("not passed on when all were released")
		}
		ok(t, r.err)
		ok(t, r.lease.Release())
		nothingLeft(t, a, b)
	})
}

// Nor is it handed on at once, though its time inside the process is not over.
func TestARevokedLockIsNotHandedOnInTheProcess(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Mutex("m"))
		local := async(ctx, a.Mutex("m"))
		synctest.Wait()
		remote := async(ctx, b.Mutex("m"))
		synctest.Wait()
		ok(t, b.Revoke(ctx, "m", lease.ID()))
		<-lease.Revoked()
		ok(t, lease.Release())
		if _, done := got(local); done {
			t.Fatal("handed on inside the process after a revocation")
		}
		r := <-remote
		ok(t, r.err)
		ok(t, r.lease.Release())
		r = <-local
		ok(t, r.err)
		ok(t, r.lease.Release())
		nothingLeft(t, a, b)
	})
}
