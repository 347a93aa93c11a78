package pglock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable())
	primitives.Run(t, primitives.Backend{World: worlds(s, ""), TTL: time.Second})
}
