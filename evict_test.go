package interlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// A holder that does not answer is waited for until its TTL has run out.
func TestEvictionWaitsNoLongerThanTheTTL(t *testing.T) {
	for name, hold := range map[string][]interlock.Option{"renewed": nil, "fixed": {interlock.Hold(time.Hour)}} {
		simulatedAs(t, name, func(t *testing.T) {
			a, b := pair(t)
			lease := acquire(t, a.Mutex("m", hold...))
			began := time.Now()
			next := async(ctx, b.Mutex("m"))
			synctest.Wait()
			ok(t, b.Admin().Evict(ctx, "m", lease.ID(), false))
			r := served(t, next)
			wantErr(t, lease.Err(), interlock.ErrEvicted)
			if d := time.Since(began); d > ttl || d < ttl/2 {
				t.Errorf("passed on after %v", d)
			}
			ok(t, r.lease.Release())
		})
	}
}

// Revoke is a request: the lease stays, and the lock is handed on to nobody of
// the same process before the backend is asked, also at once.
func TestRevoke(t *testing.T) {
	for _, stays := range []time.Duration{0, 2 * ttl} {
		simulated(t, both(func(t *testing.T, a, b member) {
			lease := acquire(t, a.Mutex("m"))
			asked := lease.Revoked()
			local := async(ctx, a.Mutex("m"))
			synctest.Wait()
			remote := async(ctx, b.Mutex("m"))
			synctest.Wait()
			ok(t, b.Admin().Revoke(ctx, "m", lease.ID()))
			<-asked
			<-lease.Revoked()
			ok(t, lease.Err())
			time.Sleep(stays)
			ok(t, lease.Err())
			ok(t, lease.Release())
			r := served(t, remote)
			notYet(t, local, "two holders")
			ok(t, r.lease.Release())
			r = served(t, local)
			if ended(r.lease.Revoked()) {
				t.Error("a new lease is revoked")
			}
			ok(t, r.lease.Release())
			wantErr(t, b.Admin().Revoke(ctx, "m", lease.ID()), interlock.ErrLost)
		}))
	}
}

// Inspection shows tickets; their IDs serve as well as those of leases.
func TestTicketsCanBeNamedLikeLeases(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, a.Mutex("m"))
		for q, err := range b.Admin().Queues(ctx, "m") {
			ok(t, err)
			ok(t, b.Admin().Revoke(ctx, "m", q.Holders[0].ID))
			<-lease.Revoked()
			ok(t, b.Admin().Evict(ctx, "m", q.Holders[0].ID, false))
		}
		<-lease.Done()
		wantErr(t, lease.Release(), interlock.ErrEvicted)
	}))
}

// What is evicted, and shared, passes on when all its leases have been released: others may
// be at work when the first is.
func TestAnEvictedSharedLockWaitsForAllItsLeases(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		var leases []*interlock.Lease
		for range 3 {
			leases = append(leases, acquire(t, a.RWMutex("m").Reader()))
		}
		held, cancel := leases[2].Bind(ctx)
		defer cancel()
		nested := errtest.Must(a.RWMutex("m", interlock.Reentrant()).Reader().Acquire(held))(t)
		leases = append(leases, nested)
		next := async(ctx, b.RWMutex("m").Writer())
		synctest.Wait()
		ok(t, b.Admin().Evict(ctx, "m", leases[0].ID(), false))
		for i, l := range leases {
			<-l.Done()
			if _, done := got(next); done {
				t.Fatalf("passed on after %d of %d were released", i, len(leases))
			}
			wantErr(t, l.Release(), interlock.ErrEvicted)
		}
		now(t, next, "not passed on when all were released").release(t)
	}))
}
