package zklock_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// cannotDuringElections lists the rules that are not run while leaders are killed.
var cannotDuringElections = map[string]string{
	"IdleWaiters":            "it counts exchanges, and each election makes all clients look again",
	"BoundedExchanges":       "it counts exchanges",
	"HandOverCost":           "it counts exchanges",
	"RenewInAFewExchanges":   "it counts exchanges",
	"Crowd":                  "it makes thousands of calls within a minute, most of which goes by without a leader",
	"RecentProofs":           "during an election nobody proves anything",
	"LateAnswers":            "the answers of an election are later",
	"SignalsBeforeTheAnswer": "the answers of an election are later",
	"Mute":                   "an election takes as long",
	"Deaf":                   "an election takes as long",
	"Impostor":               "it makes no difference who leads",
	"Member":                 "it makes no difference who leads",
	"NoRights":               "it makes no difference who leads",
	"Check":                  "the ensemble under test fails its examination while a server is missing, as it should",
}

// longDuringElections lists the rules that take long then, most of them since they wait
// for a TTL that is longer than an election.
var longDuringElections = []string{
	"RandomSteps", "Cancellation", "CancelledAwaits", "CrowdOfReaders", "ManyQueues", "NamesOfCells", "Names", "Proof", "Inherited", "InheritedAfterResize",
	"ExpiryOfAHeldTicket", "ExpiryOfAWaitingTicket", "ExpiryOfManyInARow", "SessionDeath", "TokensOverRestart",
	"RenewExtends", "RenewOfAWaitingTicket", "RenewOfAStray", "RenewOnlyWhatIsKnown", "RenewOfFixedTickets", "RenewByAnotherSession",
	"HoldEndsByItself", "HoldOutlivesItsSession", "HoldBeginsWithTheGrant", "Keep", "KeepByAnotherSession", "KeptTicketsEndCleanly",
	"EvictionOfAHeldTicket", "EvictionOfAFixedTicket", "KeepOfWhatCannotBeKept", "LostAnswers",
	"KilledProcess", "StoppedProcess", "ProcessesThatAreKilled", "ProcessesThatDie",
}

// Promise: all that the specification says holds on an ensemble of three whose
// leader is killed again and again; callers have to repeat what failed. All rules are run,
// in each shape, if ZKLOCK_ELECTIONS is all, or quiet: then nobody is killed.
func TestConformanceDuringElections(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Config("maxSessionTimeout", "1200000"))
	t.Setenv(ledgerVariable, t.TempDir())
	never := maps.Clone(cannot)
	mode, scheme, shape, pause := os.Getenv("ZKLOCK_ELECTIONS"), steadyScheme, "", 8*time.Second
	switch mode {
	case "quiet":
		scheme = "zk"
	case "all":
		maps.Copy(never, cannotDuringElections)
	default:
		maps.Copy(never, cannotDuringElections)
		for _, rule := range longDuringElections {
			never[rule] = "it takes long: ZKLOCK_ELECTIONS=all"
		}
		shape, pause = "mutex", time.Second
	}
	drivertest.Run(t, drivertest.Backend{
		TTL:         4 * time.Second,
		Unsupported: never,
		Small:       mode == "",
		Shape:       shape,
		World:       func(t testing.TB) drivertest.World { return world(t, scheme, e.Addrs(), "") },
	})
	if mode == "quiet" {
		return
	}
	// Rules that run beside others begin when this function has returned.
	stop := killLeaders(t, e, pause)
	t.Cleanup(func() {
		stop()
		e.Stop() // whose links are new
	})
}

// killLeaders kills the leader and starts it again, until stop is called.
func killLeaders(t *testing.T, e *zktest.Ensemble, pause time.Duration) (stop func()) {
	var over atomic.Bool
	var killer sync.WaitGroup
	killed := 0
	killer.Go(func() {
		for !over.Load() {
			time.Sleep(time.Second + rand.N(pause)) // a new leader gives all sessions their whole timeout
			dead := e.KillLeader()
			killed++
			e.Leader() // another one serves
			e.Restart(dead)
			e.Leader() // all three serve
		}
	})
	return func() {
		over.Store(true)
		killer.Wait()
		if killed < 2 { // one of them perhaps when all was over
			t.Errorf("%d leaders were killed while the rules ran", killed)
		}
		t.Logf("%d leaders were killed", killed)
	}
}
