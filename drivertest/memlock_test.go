package drivertest

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

func TestMain(m *testing.M) { Main(m) }

// inMemory lists what a backend in memory has no part in.
var inMemory = and(inOneProcess, map[string]string{
	"LostMessages": "in one process no message is lost",
	"Repeater":     "a call is made once",
})

// inOneProcess lists what no backend in the memory of one process has a part in.
var inOneProcess = map[string]string{
	"UnreachableBackend":    "memory is always there",
	"StoppedInAChange":      "the process stops as a whole",
	"Stranger":              noOthers,
	"NoRights":              noOthers,
	"Member":                noOthers,
	"OtherUser":             noOthers,
	"NeighbourInTheProcess": noOthers,
	"Impostor":              noNetwork,
	"SilentHost":            noNetwork,
	"Deaf":                  noNetwork,
	"Mute":                  noNetwork,
}

const (
	noOthers  = "there are no others in the process"
	noNetwork = "there is no network"
)

func and(all ...map[string]string) map[string]string {
	both := map[string]string{}
	for _, m := range all {
		maps.Copy(both, m)
	}
	return both
}

func memory(testing.TB) World {
	w := memlock.NewWorld()
	var mu sync.Mutex
	var clients []*memlock.Driver
	return World{
		Open: func(context.Context) (driver.Driver, error) {
			mu.Lock()
			defer mu.Unlock()
			clients = append(clients, w.Driver())
			return clients[len(clients)-1], nil
		},
		Hang: func() (resume func()) { return hang(clients, (*memlock.Faults).Before) },
		Late: func() (resume func()) { return hang(clients, (*memlock.Faults).After) },
	}
}

// hang holds back every call, or every reply.
func hang(clients []*memlock.Driver, point func(f *memlock.Faults, method string, k int) memlock.Point) (resume func()) {
	var hung []*memlock.Hung
	for _, c := range clients {
		hung = append(hung, point(c.Faults(), "", 0).Hang())
	}
	return func() {
		for i, c := range clients {
			c.Faults().Clear()
			hung[i].Deliver()
		}
	}
}

func TestMemlock(t *testing.T) {
	Run(t, Backend{World: memory, Unsupported: inMemory, TTL: 200 * time.Millisecond})
}

func TestMemlockInSimulatedTime(t *testing.T) {
	Run(t, Backend{World: memory, Unsupported: inMemory, TTL: 10 * time.Second, Simulated: true})
}

// Promise: a backend whose test has something happen after Run, such as elections, has all
// rules run while it happens, but for those that are to be alone.
func TestRulesOfSeveralShapesRunBesideOthers(t *testing.T) {
	returned := false
	t.Run("suite", func(t *testing.T) {
		world := func(t testing.TB) World {
			if !returned {
				t.Error("the rule runs before Run has returned")
			}
			return memory(t)
		}
		Run(t, Backend{World: world, Only: []string{"Order"}, TTL: 10 * time.Second, Simulated: true})
		returned = true
	})
}
