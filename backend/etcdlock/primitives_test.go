package etcdlock_test

import (
	"testing"

	"github.com/interlock-go/interlock/drivertest/primitives"
)

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, addr string, part part) {
		t.Parallel()
		b := primitives.Backend{TTL: TTL, World: worlds(addr)}
		if part == some {
			b.Only = []string{"Exclusion", "Election", "KilledHolder", "KilledWaiter"}
		}
		primitives.Run(t, b)
	})
}
