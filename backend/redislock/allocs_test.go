package redislock_test

import (
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// What an acquire and a release allocate is what the collector has to free while others wait.
func TestAllocationsOfAPair(t *testing.T) {
	c := errtest.Must(interlock.Open(t.Context(), redistest.Start(t).URL()))(t)
	defer c.Close()
	lock := c.Mutex("m")
	pair := func() {
		lease, err := lock.Acquire(t.Context())
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const most = 10
	if n := testing.AllocsPerRun(1000, pair); n > most+1 {
		t.Errorf("an acquire and a release allocate %v times, more than %d", n, most)
	}
}
