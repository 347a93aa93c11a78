package interlock_test

import (
	"testing"

	"github.com/interlock-go/interlock/backend/memlock"
)

// What an acquire and a release allocate is what the collector has to free while others wait.
func TestAllocationsOfAPair(t *testing.T) {
	lock := join(t, memlock.NewWorld()).Mutex("m")
	pair := func() {
		lease, err := lock.Acquire(ctx)
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const most = 2
	if n := testing.AllocsPerRun(1000, pair); n > most+1 {
		t.Errorf("an acquire and a release allocate %v times, more than %d", n, most)
	}
}
