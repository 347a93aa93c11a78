package interlock_test

import (
	"regexp"
	"testing"

	"github.com/interlock-go/interlock"
)

// Users of one name must agree on what it is; nobody waits for a disagreement.
func TestMismatch(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, a.Semaphore("s", 2))
		for name, l := range map[string]*interlock.Lock{
			"permits": b.Semaphore("s", 3), "kind": b.Mutex("s"), "reader": b.RWMutex("s").Reader(),
		} {
			wantErr(t, errOf(l.Acquire(ctx)), interlock.ErrMismatch)
			err := errOf(l.TryAcquire(ctx))
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
	}))
}
