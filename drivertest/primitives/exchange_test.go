package primitives

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/drivertest"
)

func TestExchangeInSimulatedTime(t *testing.T) {
	world := func(testing.TB) drivertest.World {
		w := exchangetest.NewWorld()
		return drivertest.World{Open: func(context.Context) (driver.Driver, error) { return w.Store().Driver(), nil }, Hang: w.Hang}
	}
	Run(t, Backend{World: world, TTL: 10 * time.Second, Simulated: true})
}
