// Package suite is what the suites of packages drivertest and primitives share.
package suite

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Check fails the test if only or unsupported names what is no rule, or if a reason is
// missing. The name is that of the suite's package.
func Check(t testing.TB, name string, rules, only []string, unsupported map[string]string) {
	t.Helper()
	for _, rule := range only {
		if !slices.Contains(rules, rule) {
			t.Errorf("%s: Only names %q, which is no rule", name, rule)
		}
	}
	for rule, reason := range unsupported {
		if !slices.Contains(rules, rule) {
			t.Errorf("%s: Unsupported names %q, which is no rule", name, rule)
		}
		if reason == "" {
			t.Errorf("%s: Unsupported gives no reason for %s", name, rule)
		}
	}
}

// Parallel runs f n times at once and waits for all. It returns the first error in the order
// of the numbers; who is what that error calls the one who made it.
func Parallel(who string, n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("%s %d of %d: %w", who, i+1, n, err)
		}
	}
	return nil
}

// OneProcessor is for tests in bubbles of synctest: the race detector crashes when
// two goroutines of a bubble run timers at the same moment (golang/go#78156).
func OneProcessor(t testing.TB) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}
