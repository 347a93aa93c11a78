// Package answers measures how late a backend is, for tests that have to tell a slow machine
// from a fault.
package answers

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
)

// Measure begins to write something down again and again, until end or the end of the test.
// longest tells for how long it has waited for that, at most.
func Measure(t testing.TB, url string) (longest func() time.Duration, end func()) {
	t.Helper()
	c, err := interlock.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	probe := interlock.NewValue[int](c, "probe")
	ctx, cancel := context.WithCancel(t.Context())
	var most atomic.Int64
	var writes sync.WaitGroup
	writes.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			if _, err := probe.Update(ctx, func(n int) (int, error) { return n + 1, nil }); err != nil && ctx.Err() == nil {
				t.Errorf("nothing can be written down: %v", err)
				return
			}
			most.Store(max(most.Load(), int64(time.Since(began))))
			time.Sleep(20 * time.Millisecond)
		}
	})
	end = sync.OnceFunc(func() {
		cancel()
		writes.Wait()
		_ = c.Close()
	})
	t.Cleanup(end)
	return func() time.Duration { return time.Duration(most.Load()) }, end
}
