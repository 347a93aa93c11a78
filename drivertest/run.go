package drivertest

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/interlock-go/interlock/drivertest/internal/suite"
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
		suite.OneProcessor(t)
	}
	for _, r := range rules {
		if len(b.Only) > 0 && !slices.Contains(b.Only, r.name) {
			continue
		}
		reason, unsupported := b.Unsupported[r.name]
		if r.processes && url == "" {
			reason, unsupported = "all clients of this backend are in one process", true
		}
		if unsupported {
			t.Run(r.name, func(t *testing.T) { t.Skipf("not supported: %s", reason) })
			continue
		}
		// A test of the rule's name that held its variants would wait for them, and no
		// rule would ever run beside another.
		variants := r.variants(url, b.Shape)
		for _, v := range variants {
			name := r.name
			if len(variants) > 1 {
				name += "/" + v.name
			}
			t.Run(name, func(t *testing.T) { r.runIn(t, b, v) })
		}
	}
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
	var names []string
	for _, r := range rules {
		names = append(names, r.name)
	}
	suite.Check(t, "drivertest", names, b.Only, b.Unsupported)
}
