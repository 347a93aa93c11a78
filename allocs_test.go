package interlock_test

import (
	"context"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// What an acquire and a release allocate is what the collector has to free while others wait.
func TestAllocationsOfAPair(t *testing.T) {
	allocs := func(opts ...interlock.ClientOption) float64 {
		lock := join(t, memlock.NewWorld(), opts...).Mutex("m")
		return testing.AllocsPerRun(1000, func() {
			lease, err := lock.Acquire(ctx)
			if err == nil {
				err = lease.Release()
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	const most = 2
	silent, observed := allocs(), allocs(interlock.Observe(func(context.Context, interlock.Event) {}))
	if silent > most+1 || observed > silent+3 { // two, and one since averages are rounded down
		t.Errorf("an acquire and a release allocate %v times, more than %d, or %v times with an observer", silent, most, observed)
	}
}
