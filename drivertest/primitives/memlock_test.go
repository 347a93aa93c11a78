package primitives

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/internal/socket"
)

func TestMain(m *testing.M) { drivertest.Main(m) }

// memory is a world whose clients can all be made to hang.
func memory(testing.TB) drivertest.World {
	w := memlock.NewWorld()
	var mu sync.Mutex
	var clients []*memlock.Driver
	return drivertest.World{
		Open: func(context.Context) (driver.Driver, error) {
			mu.Lock()
			defer mu.Unlock()
			clients = append(clients, w.Driver())
			return clients[len(clients)-1], nil
		},
		Hang: func() (resume func()) {
			mu.Lock()
			defer mu.Unlock()
			var hung []*memlock.Hung
			for _, c := range clients {
				hung = append(hung, c.Faults().Before("", 0).Hang())
			}
			return func() {
				for i, h := range hung {
					clients[i].Faults().Clear()
					h.Deliver()
				}
			}
		},
	}
}

// served is a world in memory that other processes can reach.
func served(t testing.TB) drivertest.World {
	path := socket.Serve(t, memory(t).Open)
	return drivertest.World{
		Open: func(ctx context.Context) (driver.Driver, error) { return socket.Dial(ctx, path) },
		URL:  "socket://" + path,
	}
}

func TestMemlock(t *testing.T) {
	Run(t, Backend{World: served, TTL: time.Second})
}

func TestMemlockInSimulatedTime(t *testing.T) {
	Run(t, Backend{World: memory, TTL: 10 * time.Second, Simulated: true})
}
