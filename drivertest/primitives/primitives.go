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
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/bubble"
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
	checkConfig(t, b)
	url := ""
	if !b.Simulated {
		url = b.World(t).URL
	} else {
		suite.OneProcessor(t)
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
			if r.network && (b.Simulated || b.World(t).Via == nil) {
				t.Skip("there is no network between the clients and the backend")
			}
			variants := r.variants()
			if len(variants) == 1 {
				r.runIn(t, b, variants[0])
				return
			}
			for _, v := range variants {
				t.Run(string(v), func(t *testing.T) { r.runIn(t, b, v) })
			}
		})
	}
}

// runIn runs the rule beside others or alone, in real or in simulated time.
func (r rule) runIn(t *testing.T, b Backend, v variant) {
	if !r.alone {
		t.Parallel()
	}
	if b.Simulated {
		bubble.Run(t, func(t *testing.T) { r.run(t, b, v) })
	} else {
		r.run(t, b, v)
	}
}

func checkConfig(t *testing.T, b Backend) {
	t.Helper()
	if b.World == nil || b.TTL <= 0 {
		t.Fatal("primitives: Backend needs World and TTL")
	}
	var names []string
	for _, r := range rules {
		names = append(names, r.name)
	}
	suite.Check(t, "primitives", names, b.Only, b.Unsupported)
}
