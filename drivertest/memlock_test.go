package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

func TestMain(m *testing.M) { Main(m) }

func memory(testing.TB) World {
	w := memlock.NewWorld()
	return World{Open: func(context.Context) (driver.Driver, error) { return w.Driver(), nil }}
}

func TestMemlock(t *testing.T) {
	Run(t, Backend{World: memory, TTL: 200 * time.Millisecond})
}

func TestMemlockInSimulatedTime(t *testing.T) {
	Run(t, Backend{World: memory, TTL: 10 * time.Second, Simulated: true})
}
