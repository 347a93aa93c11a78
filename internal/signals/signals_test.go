package signals_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/signals"
)

func open(ctx context.Context) error { return ctx.Err() }

// Promise: each signal is told once, until it is due again, and in order.
func TestEachIsToldOnce(t *testing.T) {
	q := signals.New()
	q.Add(driver.Wanted, "q", "a")
	q.Add(driver.Wanted, "q", "a")
	q.Add(driver.Revoke, "q", "a")
	next := func() driver.Signal {
		s := errtest.Must(q.Next(t.Context(), open, nil, nil))(t)
		return s
	}
	wanted := driver.Signal{Demand: driver.Wanted, Queue: "q", ID: "a"}
	if got := next(); got != wanted {
		t.Errorf("got %+v, want %+v", got, wanted)
	}
	q.Add(driver.Wanted, "q", "a")
	if got := next(); got.Demand != driver.Revoke {
		t.Errorf("got %+v, want what came second", got)
	}
	if got := next(); got != wanted {
		t.Errorf("got %+v, want %+v", got, wanted)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := q.Next(ctx, open, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v, want nothing", got, err)
	}
}

// Promise: signals reach all who wait, and the end of a session ends them.
func TestManyWait(t *testing.T) {
	q := signals.New()
	over := make(chan struct{})
	usable := func(context.Context) error {
		select {
		case <-over:
			return driver.ErrSession
		default:
			return nil
		}
	}
	var all, told sync.WaitGroup
	told.Add(100)
	for range 4 {
		all.Go(func() {
			for {
				if _, err := q.Next(t.Context(), usable, over, nil); err != nil {
					if !errors.Is(err, driver.ErrSession) {
						t.Error(err)
					}
					return
				}
				told.Done()
			}
		})
	}
	for i := range 100 {
		q.Add(driver.Evict, "q", string(rune('A'+i)))
	}
	told.Wait()
	close(over)
	all.Wait()
}
