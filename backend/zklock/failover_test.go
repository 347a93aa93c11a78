package zklock_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: while leaders are killed, and cut off from the others, and come back, one
// holds at a time, tokens grow, and nobody waits at the end: no ticket is left that nobody has.
func TestFailoversByDeathAndByFreezing(t *testing.T) {
	t.Parallel()
	rounds := repeated(t, "ZKLOCK_FAILOVERS", 3)
	e := zktest.StartEnsemble(t, 3, zktest.Config("syncLimit", "5"))
	var over atomic.Bool
	round := 0
	chaos.Run(t, chaos.Load{
		URL: "zk://" + strings.Join(e.Addrs(), ",") + "/app", TTL: 4 * time.Second, Clients: 3, Each: 2, Times: math.MaxInt, Hold: 20 * time.Millisecond, Until: over.Load,
	}, func() {
		time.Sleep(time.Second + rand.N(time.Second))
		leader := e.Leader()
		if round%2 == 0 {
			e.Freeze(leader)
			time.Sleep(rand.N(4 * time.Second)) // for an election, or too short for one
			e.Thaw(leader)
		} else {
			leader.Kill()
			e.Leader()
			e.Restart(leader)
		}
		e.Leader()
		round++
		over.Store(round >= rounds)
	})
	raw := connected(t, e.Leader().Addr)
	busy.Until(t, "no ticket is left", func() bool { return len(nodesBelow(t, raw, "/app/chaos/0", "/app/chaos/1")) == 0 })
}
