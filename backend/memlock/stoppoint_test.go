package memlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// A user's test in simulated time: a worker that is cut off must have stopped
// before another one holds the lock. It takes no real time, and always takes the
// same simulated time.
func TestAWorkerThatIsCutOffStopsBeforeTheNextBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		world := memlock.NewWorld()
		d := world.Driver()
		first, err := interlock.New(ctx, d)
		ok(t, err)
		second, err := interlock.New(ctx, world.Driver())
		ok(t, err)

		var stopped time.Time
		done := make(chan error)
		working := make(chan struct{})
		go func() {
			done <- first.Mutex("report").Do(ctx, func(ctx context.Context) error {
				d.Faults().Cut() // the stop point
				close(working)
				<-ctx.Done()
				stopped = time.Now()
				return nil
			})
		}()
		<-working
		lease, err := second.Mutex("report").Acquire(ctx)
		ok(t, err)
		began := time.Now()
		if err := <-done; !errors.Is(err, interlock.ErrLost) {
			t.Errorf("the first worker was not told: %v", err)
		}
		if !stopped.Before(began) {
			t.Errorf("the first stopped at %v, the second began at %v", stopped, began)
		}
		ok(t, lease.Release())
		ok(t, second.Close())
		d.Faults().Heal()
		ok(t, first.Close())
	})
}
