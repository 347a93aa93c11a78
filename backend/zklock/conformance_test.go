package zklock_test

import (
	"context"
	"crypto/rand"
	"flag"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/zktest"
)

var openURL = drivertest.OpenURL

func TestMain(m *testing.M) { drivertest.Main(servers.Around(m)) }

// The rules have their full size if ZKLOCK_CONFORMANCE is full.
func TestConformance(t *testing.T) {
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	conform(t, s.Addr)
}

// With semaphore=curator, semaphores keep the promises, except those that are listed.
// The rules have their full size if ZKLOCK_CONFORMANCE is full.
func TestConformanceOfLeases(t *testing.T) {
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	never := maps.Clone(cannot)
	maps.Copy(never, cannotLend)
	for _, rule := range notOfSemaphores {
		never[rule] = "it is about what both layouts share: TestConformance"
	}
	fewer(t)
	drivertest.Run(t, drivertest.Backend{
		TTL:         rulesTTL,
		Unsupported: never,
		Shape:       "all permits",
		Small:       small(),
		World:       func(t testing.TB) drivertest.World { return world(t, "zk", []string{s.Addr}, curators) },
	})
}

// rulesTTL is that of the sessions that are to die.
const rulesTTL = time.Second

// fewer has the rule RandomSteps of this run take 30 walks instead of 100, of some thirty steps
// each, unless the rules have their full size: each step is several exchanges.
func fewer(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if usual := checks.Value.String(); small() && usual == checks.DefValue {
		_ = checks.Value.Set("30")
		t.Cleanup(func() { _ = checks.Value.Set(usual) })
	}
}

func small() bool { return os.Getenv("ZKLOCK_CONFORMANCE") != "full" }

// cannot lists the rules that ZooKeeper cannot keep.
var cannot = map[string]string{
	"Stranger":              "a server of ZooKeeper sends nothing for anybody else",
	"OtherUser":             "a server has the files",
	"NeighbourInTheProcess": "a server has the files",
	"Repeater":              "a server takes each request of a connection once, in order",
	"StoppedInAChange":      "a change is one request, which a server makes as a whole",
	"LostMessages":          "events come over the connection that replies come over, in order: none is lost without it",
}

// cannotLend lists the rules that semaphores in Curator's layout cannot keep besides.
var cannotLend = map[string]string{
	"Resize":                 notResized,
	"ResizeIsKept":           notResized,
	"InheritedAfterResize":   notResized,
	"LargestCapacity":        "each unit of a ticket is a node",
	"HandOverCost":           "two nodes are handed over, one after the other: seven exchanges instead of six",
	"HoldEndsByItself":       unfixed,
	"HoldOutlivesItsSession": unfixed,
	"HoldBeginsWithTheGrant": unfixed,
	"Keep":                   unfixed,
	"KeepByAnotherSession":   unfixed,
	"KeepOfWhatCannotBeKept": unfixed,
	"KeptTicketsEndCleanly":  unfixed,
	"LeaveOfAnotherSession":  unfixed,
	"RenewOfFixedTickets":    unfixed,
	"RenewByAnotherSession":  unfixed,
	"EvictionOfAFixedTicket": unfixed,
}

// notOfSemaphores lists the rules about values, connections and sessions.
var notOfSemaphores = []string{
	"Cells", "CellSize", "CellContention", "ConcurrentCells", "DeletedCells", "ManyCells", "NamesOfCells", "LongNamesOfCells",
	"SwapComparesVersions", "SwapIsIdempotent", "Watch", "WatchIsTold", "WatchNeverMissesTheLast",
	"Check", "Deaf", "Mute", "Impostor", "SilentHost", "Member", "RecentProofs", "SessionIDs", "SessionTTL", "UnreachableBackend",
}

const notResized = "none of Curator's programs would learn of another number"

const unfixed = "a lease ends with its session, never at a fixed time: nobody else would remove it"

// conform runs the suite on servers that all rules share, each rule behind a path
// of its own. Clients in this process reach them through proxies of the rule.
func conform(t *testing.T, addrs ...string) {
	fewer(t)
	drivertest.Run(t, drivertest.Backend{
		TTL:         rulesTTL,
		Unsupported: cannot,
		Small:       small(),
		World:       func(t testing.TB) drivertest.World { return world(t, "zk", addrs, "") },
	})
}

// world is a path of its own on the servers.
func world(t testing.TB, scheme string, addrs []string, options string) drivertest.World {
	path, user := "/w"+rand.Text(), "holder:secret@" // who alone may use the nodes
	var proxies []*zktest.Proxy
	var near []string
	for _, addr := range addrs {
		p := zktest.NewProxy(t, addr)
		proxies, near = append(proxies, p), append(near, p.Addr)
	}
	return drivertest.World{
		Open: func(ctx context.Context) (driver.Driver, error) {
			return openURL(ctx, scheme+"://"+user+strings.Join(near, ",")+path+options)
		},
		Via: func(ctx context.Context, at func(string) string) (driver.Driver, error) {
			var all []string
			for _, addr := range addrs {
				all = append(all, at(addr))
			}
			return openURL(ctx, scheme+"://"+user+strings.Join(all, ",")+path+options)
		},
		URL:  scheme + "://" + user + strings.Join(addrs, ",") + path + options,
		Hang: func() (resume func()) { return disturb(proxies, (*zktest.Proxy).Hang) },
		Late: func() func() {
			resume := disturb(proxies, (*zktest.Proxy).Late)
			// A server that answers nothing for a quarter of the TTL is left, and then
			// the answers are lost, not late.
			early := time.AfterFunc(rulesTTL/5, resume)
			return func() { early.Stop(); resume() }
		},
		NoRights: func(ctx context.Context) (driver.Driver, error) {
			return openURL(ctx, scheme+"://other:secret@"+strings.Join(addrs, ",")+path+options)
		},
		Damages:     func(name string) []drivertest.Damage { return damages(t, addrs, path, name) },
		Unreachable: drivertest.NobodyAt("zk://127.0.0.1:1"),
	}
}

func disturb(proxies []*zktest.Proxy, begin func(*zktest.Proxy)) (resume func()) {
	for _, p := range proxies {
		begin(p)
	}
	return func() {
		for _, p := range proxies {
			p.Resume()
		}
	}
}

// Promise: package interlock keeps its promises over it, also with the names of other
// libraries.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	with := func(options string, only ...string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			primitives.Run(t, primitives.Backend{
				World: func(t testing.TB) drivertest.World { return world(t, "zk", []string{s.Addr}, options) },
				TTL:   time.Second,
				Only:  only,
			})
		}
	}
	t.Run("own names", with(""))
	t.Run("kazoo's names", with("?layout=kazoo", "Exclusion", "Order", "Tokens", "Cancellation",
		"ReadersAndWriters", "NoOvertaking", "Downgrade", "ReportedDeath", "Election", "KilledHolder", "ThirtyNumbers"))
	t.Run("Curator's semaphores", with(curators, "Permits", "Mismatch", "Inspection", "Deadlock", "Barrier", "Overrun"))
}
