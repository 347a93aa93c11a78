package drivertest

import (
	"slices"
	"testing"

	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// Run checks every rule of package driver. It must not run beside other tests,
// because it looks for goroutines that are left over.
func Run(t *testing.T, b Backend) {
	if b.World == nil || b.TTL <= 0 {
		t.Fatal("drivertest: Backend needs World and TTL")
	}
	if b.Shape != "" && !slices.ContainsFunc(shapes, func(s shape) bool { return s.name == b.Shape }) {
		t.Fatalf("drivertest: there is no shape %q", b.Shape)
	}
	url := ""
	if !b.Simulated {
		url = b.World(t).URL
	}
	noLeaks(t)
	suite.Run(t, suite.Config{Package: "drivertest", Processes: url != "", Simulated: b.Simulated, Unsupported: b.Unsupported, Only: b.Only},
		rules, func(r rule) []string { return variants(r, url, b.Shape) },
		func(tb testing.TB, r rule, variant string) { check(tb, r, b, variant) })
}
