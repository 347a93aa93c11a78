package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	primitives.Run(t, primitives.Backend{
		World: worlds([]*redistest.Server{s}, "redis://"+s.Addr, rueidis.ClientOption{InitAddress: []string{s.Addr}}),
		TTL:   time.Second,
	})
}
