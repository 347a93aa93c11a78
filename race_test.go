package interlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	machine "github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// finish waits for goroutines in real time.
func finish(t *testing.T, what string, wg *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	errtest.Received(t, what, done)
}

// In real time, on real processors: acquires of two clients whose contexts end
// at any moment. One holds at a time, and nothing is left behind.
func TestRealCancellations(t *testing.T) {
	for name, opts := range map[string][]interlock.Option{
		"shared": nil, "sticky": {interlock.Sticky()}, "strict": {interlock.StrictOrder()},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			counter, grants := 0, 0 // unprotected, but for the lock
			var wg sync.WaitGroup
			for i := range 100 {
				l := []member{a, b}[i%2].Mutex("m", opts...)
				wg.Go(func() {
					for range 50 {
						bounded, cancel := context.WithTimeout(ctx, rand.N(300*time.Microsecond))
						lease, err := l.Acquire(bounded)
						if err == nil {
							counter++
							failIf(t, counter != 1, "two holders")
							grants++
							counter--
							errtest.Is(t, lease.Release(), nil)
						} else if !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						cancel()
					}
				})
			}
			finish(t, "acquires whose contexts end", &wg)
			soon := interlock.Wait(time.Minute)
			lease := acquire(t, b.Mutex("m", soon))
			failIf(t, grants == 0, "nobody was served")
			ok(t, lease.Release())
			lease = acquire(t, a.Mutex("m", soon)) // recalls what is sticky
			ok(t, lease.Release())
			machine.Until(t, "an empty client", func() bool {
				for _, m := range []member{a, b} {
					if tickets, queues, followers := m.Sizes(); tickets+queues+followers > 0 {
						return false
					}
				}
				return true
			})
		})
	}
}

// Readers and writers, downgrades, tries and a Close in the midst of it.
func TestRealReadersAndWriters(t *testing.T) {
	w := memlock.NewWorld()
	for range 5 {
		a, b := join(t, w), join(t, w)
		value := 0 // of b, whose leases no Close ends; unprotected, but for the lock
		var wg sync.WaitGroup
		for i := range 40 {
			rw := []member{a, b}[i%2].RWMutex("rw")
			mine := i%2 == 1
			wg.Go(func() {
				for j := range 50 {
					var lease *interlock.Lease
					var err error
					switch (i + j) % 4 {
					case 0:
						if lease, err = rw.Writer().Acquire(ctx); err == nil {
							if mine {
								value++
							}
							err = lease.Downgrade(ctx)
						}
					case 1:
						lease, err = rw.Reader().TryAcquire(ctx)
					default:
						lease, err = rw.Reader().Acquire(ctx)
					}
					switch {
					case err == nil:
						failIf(t, mine && value < 0, "%v", value)
						err = lease.Release()
					case errors.Is(err, interlock.ErrBusy):
						err = nil
					}
					if err != nil && !errors.Is(err, interlock.ErrReleased) && !errors.Is(err, interlock.ErrLost) && !errors.Is(err, interlock.ErrClosed) {
						t.Error(err)
					}
					if j == 25 && i == 1 {
						go a.Close()
					}
				}
			})
		}
		finish(t, "readers and writers", &wg)
	}
}
