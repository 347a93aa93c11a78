package virtual_test

import (
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/lab/broken"
	"github.com/interlock-go/interlock/lab/check"
	"github.com/interlock-go/interlock/lab/virtual"
	"github.com/interlock-go/interlock/lab/worker"
)

// Promise: each broken driver is caught, by the promise that it breaks.
func TestBrokenDriversAreCaught(t *testing.T) {
	for _, b := range broken.All {
		t.Run(b.Name, func(t *testing.T) {
			for seed := range uint64(20) {
				r := virtual.Run(t, virtual.Options{Seed: seed, For: 10 * time.Minute, Think: 3 * time.Second,
					Decide: 500 * time.Millisecond, Break: b.Wrap, Workloads: worker.Choose([]string{b.Workload}, true)})
				if slices.ContainsFunc(r.Violations, func(v check.Violation) bool { return v.Promise == b.Caught }) {
					t.Logf("seed %d: %d violations, the first: %+v", seed, len(r.Violations), r.Violations[0])
					return
				}
				t.Logf("seed %d: %d operations, %d violations, none of %q: %v", seed, r.Operations, len(r.Violations),
					b.Caught, promises(r))
			}
			t.Errorf("not caught: %s", b.About)
		})
	}
}

func promises(r *check.Result) (all []string) {
	for _, v := range r.Violations {
		all = append(all, v.Promise)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
