package zklock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: package interlock keeps its promises over it, also with the names of other
// libraries.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	with := func(options string, only ...string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			primitives.Run(t, primitives.Backend{
				World: func(t testing.TB) drivertest.World { return world(t, "zk", []string{s.Addr}, options) },
				TTL:   time.Second,
				Only:  only,
			})
		}
	}
	t.Run("own names", with(""))
	t.Run("kazoo's names", with("?layout=kazoo", "Exclusion", "Order", "Tokens", "Cancellation",
		"ReadersAndWriters", "NoOvertaking", "Downgrade", "ReportedDeath", "Election", "KilledHolder", "ThirtyNumbers"))
	t.Run("Curator's semaphores", with(curators, "Permits", "Mismatch", "Inspection", "Deadlock", "Barrier", "Overrun"))
}
