package virtual_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/lab/virtual"
	"github.com/interlock-go/interlock/lab/worker"
)

// Promise: hours of work under faults keep every promise.
func TestHours(t *testing.T) {
	for seed := range uint64(3) {
		r := virtual.Run(t, virtual.Options{Seed: seed, For: time.Hour, Think: 20 * time.Second,
			Workloads: worker.Choose(nil, true)})
		t.Logf("seed %d: %d operations, %d grants, %d lost, faults %v", seed, r.Operations, r.Grants, r.Losses,
			r.Faults)
		for _, v := range r.Violations {
			t.Errorf("seed %d: %s: %s: %s", seed, v.Promise, v.Object, v.Text)
		}
	}
}
