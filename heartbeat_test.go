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

// Promise: a lease never has less than 0.4 of its TTL left, from its grant on, also where
// the backend proves nothing younger than a third of the TTL; and where proofs are young
// there are three heartbeats for each TTL.
func TestHeartbeatsLeaveTime(t *testing.T) {
	for _, c := range []struct {
		name           string
		old            time.Duration
		beats, atLeast time.Duration
	}{
		{"old proofs", ttl / 3, 16, ttl * 4 / 10},
		{"young proofs", 0, 4, ttl * 55 / 100},
	} {
		simulatedAs(t, c.name, func(t *testing.T) {
			beats := 0
			cl, err := interlock.New(ctx, &slack{Driver: memlock.New(), old: c.old, always: true, joins: true}, interlock.Observe(func(_ context.Context, e interlock.Event) {
				if e.Kind == interlock.EventRenewed {
					beats++
				}
			}))
			ok(t, err)
			defer cl.Close()
			const periods = 30
			idle := ttl / 10
			for began := time.Now(); time.Since(began) < periods*ttl; idle += ttl / 30 {
				time.Sleep(idle) // so that the next one is granted at another time between heartbeats
				l := acquire(t, cl.Mutex("m"))
				for range 80 {
					if left := l.Remaining(); left < c.atLeast {
						t.Fatalf("%v are left of %v, after %d heartbeats", left, ttl, beats)
					}
					time.Sleep(ttl / 100)
				}
				ok(t, l.Release())
			}
			synctest.Wait()
			if beats > int((periods+2)*c.beats) {
				t.Errorf("%d heartbeats in %d TTLs", beats, periods)
			}
		})
	}
}

// Promise: a renewal counts however late its answer comes, while it proves that the lease is held: answers that each
// take half of a TTL lose nothing, and no lease is in doubt while they come.
func TestALateAnswerRenews(t *testing.T) {
	simulated(t, func(t *testing.T) {
		cl := errtest.Must(interlock.New(ctx, &slack{Driver: memlock.New(), late: ttl / 2, always: true}))(t)
		defer cl.Close()
		l := acquire(t, cl.Mutex("m"))
		time.Sleep(ttl)
		for began := time.Now(); time.Since(began) < 10*ttl; time.Sleep(ttl / 100) {
			ok(t, l.Err())
			if l.InDoubt() {
				t.Fatal("the lease is in doubt")
			}
		}
		ok(t, l.Release())
	})
}
