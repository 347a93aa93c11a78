package drivertest

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

// Run checks every rule of package driver. It must not run beside other tests,
// because it looks for goroutines that are left over.
func Run(t *testing.T, b Backend) {
	checkConfig(t, b)
	url := ""
	if !b.Simulated {
		url = b.World(t).URL
	}
	noLeaks(t)
	if b.Simulated {
		oneProcessor(t)
	}
	for _, r := range rules {
		if len(b.Only) > 0 && !slices.Contains(b.Only, r.name) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			if reason, ok := b.Unsupported[r.name]; ok {
				t.Skipf("not supported: %s", reason)
			}
			if r.processes && url == "" {
				t.Skip("all clients of this backend are in one process")
			}
			variants := r.variants(url, b.Shape)
			if len(variants) == 1 {
				r.runIn(t, b, variants[0])
				return
			}
			for _, v := range variants {
				t.Run(v.name, func(t *testing.T) { r.runIn(t, b, v) })
			}
		})
	}
}

// oneProcessor is for tests in bubbles of synctest: the race detector crashes when
// two goroutines of a bubble run timers at the same moment (golang/go#78156).
func oneProcessor(t testing.TB) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// runIn runs the rule beside others or alone, in real or in simulated time.
func (r rule) runIn(t *testing.T, b Backend, v variant) {
	if !r.alone {
		t.Parallel()
	}
	if b.Simulated {
		synctest.Test(t, func(t *testing.T) { r.run(t, b, v) })
	} else {
		r.run(t, b, v)
	}
}

func checkConfig(t *testing.T, b Backend) {
	t.Helper()
	if b.World == nil || b.TTL <= 0 {
		t.Fatal("drivertest: Backend needs World and TTL")
	}
	if b.Shape != "" && !slices.ContainsFunc(shapes, func(s shape) bool { return s.name == b.Shape }) {
		t.Fatalf("drivertest: there is no shape %q", b.Shape)
	}
	known := map[string]bool{}
	for _, r := range rules {
		known[r.name] = true
	}
	for _, name := range b.Only {
		if !known[name] {
			t.Errorf("drivertest: Only names %q, which is no rule", name)
		}
	}
	for name, reason := range b.Unsupported {
		if !known[name] {
			t.Errorf("drivertest: Unsupported names %q, which is no rule", name)
		}
		if reason == "" {
			t.Errorf("drivertest: Unsupported gives no reason for %s", name)
		}
	}
}
