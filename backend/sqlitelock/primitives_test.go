package sqlitelock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/drivertest/primitives"
)

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	primitives.Run(t, primitives.Backend{World: newWorld, TTL: time.Second})
}
