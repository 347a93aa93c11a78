package interlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

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
						failIf(t, lease.Token() <= last, "token %d after %d", lease.Token(), last)
						last = lease.Token()
						n++
						return nil
					}); err != nil {
						t.Error(err)
					}
				})
			}
			finish(t, "a crowd of goroutines", &wg)
			failIf(t, n != goroutines, "%d of %d were served", n, goroutines)
		})
	}
}

// Those of a crowd that do not give up are granted, however many others gave up before them, at
// the backend or before they came to it. Then nothing of the crowd is left.
func TestACrowdThatGivesUpLeavesNothingBehind(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		held := acquire(t, b.Mutex("m"))
		impatient, cancel := context.WithCancel(ctx)
		const all = 500
		var granted atomic.Int64
		var wg sync.WaitGroup
		for i := range all {
			if i == interlock.Crowded {
				a.faults().Before("Join", 1).Hang() // so that others do not come yet
			}
			wg.Go(func() {
				mine := ctx
				if i%5 != 0 { // such as the one that hangs
					mine = impatient
				}
				lease, err := a.Mutex("m", interlock.StrictOrder()).Acquire(mine)
				if err != nil {
					return
				}
				granted.Add(1)
				ok(t, lease.Release())
			})
			synctest.Wait()
		}
		cancel()
		ok(t, held.Release())
		finish(t, "a crowd of which most give up", &wg)
		equal(t, granted.Load(), all/5, "granted")
	}))
}
