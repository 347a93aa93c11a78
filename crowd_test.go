package interlock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// 10,000 goroutines of one process want one mutex: all are served, one at a
// time.
func TestACrowdIsDrained(t *testing.T) {
	for name, opts := range map[string][]interlock.Option{
		"handed over": nil, "strict order": {interlock.StrictOrder()}, "sticky": {interlock.Sticky()},
	} {
		t.Run(name, func(t *testing.T) {
			a := join(t, memlock.NewWorld())
			l := a.Mutex("m", opts...)
			const goroutines = 10_000
			n := 0
			var last uint64
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					if err := l.Do(ctx, func(held context.Context) error {
						lease, _ := l.Held(held)
						if lease.Token() <= last {
							t.Errorf("token %d after %d", lease.Token(), last)
						}
						last = lease.Token()
						n++
						return nil
					}); err != nil {
						t.Error(err)
					}
				})
			}
			finish(t, "a crowd of goroutines", &wg)
			if n != goroutines {
				t.Errorf("%d of %d were served", n, goroutines)
			}
		})
	}
}

// What a client remembers does not grow with the names that it has used.
func TestNoGrowthOverManyNames(t *testing.T) {
	a := join(t, memlock.NewWorld())
	for i := range 30_000 {
		lease, err := a.Mutex(fmt.Sprint("orders/", i), interlock.Wait(time.Minute)).Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if tickets, lines, writers := a.Sizes(); tickets+lines+writers > 0 {
		t.Errorf("left behind: %d tickets, %d lines, %d writers", tickets, lines, writers)
	}
	if n := runtime.NumGoroutine(); n > 20 {
		t.Errorf("%d goroutines", n)
	}
}
