package interlock_test

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

func TestPermitsAreNeverExceeded(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		const permits = 5
		var mu sync.Mutex
		var used, most int64
		var wg sync.WaitGroup
		members := []member{join(t, w), join(t, w)}
		for i := range 60 {
			weight := int64(1 + i%permits)
			s := members[i%2].Semaphore("s", permits, interlock.Weight(weight))
			wg.Go(func() {
				for range 5 {
					if err := s.Do(ctx, func(context.Context) error {
						mu.Lock()
						used += weight
						most = max(most, used)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						used -= weight
						mu.Unlock()
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if most != permits {
			t.Errorf("%d permits were used at once, want %d", most, permits)
		}
		nothingLeft(t, members...)
	})
}

// Permits are served first come, first served: a light one does not pass a
// heavy one.
func TestALightAcquireDoesNotPassAHeavyOne(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		one := acquire(t, a.Semaphore("s", 2))
		heavy := async(ctx, a.Semaphore("s", 2, interlock.Weight(2)))
		synctest.Wait()
		light := async(ctx, a.Semaphore("s", 2))
		if _, done := got(light); done {
			t.Fatal("passed")
		}
		ok(t, one.Release())
		r := <-heavy
		ok(t, r.err)
		if _, done := got(light); done {
			t.Fatal("too many")
		}
		ok(t, r.lease.Release())
		r = <-light
		ok(t, r.err)
		ok(t, r.lease.Release())
		nothingLeft(t, a)
	})
}

// Users of one name must agree on what it is; nobody waits for a disagreement.
func TestMismatch(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Semaphore("s", 2))
		for name, l := range map[string]*interlock.Lock{
			"permits": b.Semaphore("s", 3), "kind": b.Mutex("s"), "reader": b.RWMutex("s").Reader(),
		} {
			_, err := l.Acquire(ctx)
			wantErr(t, err, interlock.ErrMismatch)
			_, err = l.TryAcquire(ctx)
			wantErr(t, err, interlock.ErrMismatch)
			if e := err.(*interlock.Error); e.Op != "acquire" || e.Name != "s" {
				t.Errorf("%s: %+v", name, e)
			}
			want := map[string]string{"permits": "a semaphore with 3 permits", "kind": "a mutex", "reader": "a read-write lock"}[name]
			if text := err.Error(); !regexp.MustCompile("other kind or capacity: this is " + want + ", and for \\S+ it is a semaphore with 2 permits$").MatchString(text) {
				t.Errorf("%s: it says %q", name, text)
			}
		}
		ok(t, lease.Release())
		ok(t, acquire(t, b.Mutex("s")).Release()) // an empty queue forgets
		nothingLeft(t, a, b)
	})
}
