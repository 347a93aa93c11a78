// Package primitives checks what package interlock promises (mutexes, read-write
// locks, semaphores, elections, barriers, latches, values and what can be done
// with their leases) over a backend: package drivertest checks the backend, this
// package the two together. A backend's own test is
//
//	func TestPrimitives(t *testing.T) {
//		primitives.Run(t, primitives.Backend{
//			World: func(t testing.TB) drivertest.World { … },
//			TTL:   time.Second,
//		})
//	}
//
// beside a TestMain that calls drivertest.Main.
//
// Each rule is a subtest, and a failure prints the promise that was broken. Most
// rules are checked twice, the second time with replies of the backend that get
// lost. If the world has a URL, some rules make members: clients in processes of
// their own, which are stopped and killed.
package primitives

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// Backend says over what the primitives are checked.
type Backend struct {
	// World makes an empty backend; see [drivertest.Backend]. Of its functions Open
	// is needed. Hang, if there is one, pauses the backend for a fifth of a TTL.
	World func(t testing.TB) drivertest.World

	// TTL is the shortest that the backend grants; a second is good.
	TTL time.Duration

	// Simulated runs each rule in a bubble of testing/synctest, for drivers that
	// live in the time of package time and do no I/O. Rules about processes are
	// not run.
	Simulated bool

	// Unsupported names the rules that cannot be kept over the backend, each with
	// the reason.
	Unsupported map[string]string

	// Only names the rules that are checked. Empty: all. It is for another way to
	// reach the same servers, beside a run that checks all.
	Only []string
}

// Run checks every rule. The rules run beside each other, each in a world of its
// own.
func Run(t *testing.T, b Backend) {
	if b.World == nil || b.TTL <= 0 {
		t.Fatal("primitives: Backend needs World and TTL")
	}
	processes := !b.Simulated && b.World(t).URL != ""
	suite.Run(t, suite.Config{Package: "primitives", Processes: processes, Simulated: b.Simulated, Unsupported: b.Unsupported, Only: b.Only},
		rules, variants, func(tb testing.TB, r rule, variant string) { check(tb, r, b, variant) })
}
