package mysqllock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	var pool prefixes
	primitives.Run(t, primitives.Backend{
		World: func(t testing.TB) drivertest.World { return world(t, s, &pool) },
		TTL:   time.Second,
	})
}
