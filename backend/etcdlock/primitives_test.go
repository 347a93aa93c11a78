package etcdlock_test

import (
	"testing"

	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	primitives.Run(t, primitives.Backend{World: worlds(s.Addr), TTL: TTL})
}
