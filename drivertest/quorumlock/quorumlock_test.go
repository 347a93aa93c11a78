// Package quorumlock_test runs both suites on backend/quorumlock, whose module may not require this one.
package quorumlock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/backend/quorumlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/errtest"
)

func TestMain(m *testing.M) { drivertest.Main(m) }

// memory is a quorum of three worlds in memory, whose clients can all be made to hang.
func memory(t testing.TB) drivertest.World {
	worlds := []*memlock.World{memlock.NewWorld(), memlock.NewWorld(), memlock.NewWorld()}
	var mu sync.Mutex
	var clients []*memlock.Driver
	open := func(context.Context) (driver.Driver, error) {
		mu.Lock()
		defer mu.Unlock()
		var members []driver.Driver
		for _, w := range worlds {
			d := w.Driver()
			clients = append(clients, d)
			members = append(members, d)
		}
		return quorumlock.New(members...)
	}
	use(t, open)
	stop := func(point func(*memlock.Faults, string, int) memlock.Point) func() {
		mu.Lock()
		defer mu.Unlock()
		stopped := clients
		var hung []*memlock.Hung
		for _, c := range stopped {
			hung = append(hung, point(c.Faults(), "", 0).Hang())
		}
		return func() {
			for i, c := range stopped {
				c.Faults().Clear()
				hung[i].Deliver()
			}
		}
	}
	return drivertest.World{
		Open: open,
		Hang: func() (resume func()) { return stop((*memlock.Faults).Before) },
		Late: func() (resume func()) { return stop((*memlock.Faults).After) },
	}
}

// use has the members count: a new quorum does after the TTL of its first client.
func use(t testing.TB, open func(context.Context) (driver.Driver, error)) {
	d := errtest.Must(open(t.Context()))(t)
	defer d.Close()
	s := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: 20 * time.Millisecond}))(t)
	defer s.Close(t.Context())
	r := driver.Request{Queue: "first", Kind: driver.Mutex, Units: 1, Capacity: 1}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		r.ID = newID()
		tk, err := s.Join(t.Context(), r)
		if err == nil {
			_ = s.Leave(t.Context(), tk, true) // else it ends soon: its TTL is short
			return
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("a new quorum does not count: %v", err)
		}
	}
}

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// ttl is such that a member which runs in the same, busy process is not taken for one that is silent:
// it has a sixth of it to answer.
const ttl = 2 * time.Second

// Promise: what package driver says of a backend, but for what a majority cannot do.
func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Backend{World: memory, TTL: ttl, Unsupported: unsupported})
}

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	primitives.Run(t, primitives.Backend{World: memory, TTL: ttl, Unsupported: unsupportedPrimitives})
}

var unsupported = map[string]string{
	"Resize":               notResized,
	"ResizeIsKept":         notResized,
	"InheritedAfterResize": notResized,

	"TokenIsShown":          "members give different tokens, and inspection asks them alone",
	"LostMessages":          "in one process no message is lost",
	"UnreachableBackend":    "memory is always there",
	"StoppedInAChange":      "the process stops as a whole",
	"Repeater":              "exchanges are those of the members",
	"Stranger":              members,
	"NoRights":              members,
	"Member":                members,
	"OtherUser":             members,
	"NeighbourInTheProcess": members,
	"Impostor":              members,
	"SilentHost":            members,
	"Deaf":                  members,
	"Mute":                  members,
	"LeaveGrantsTheNext":    later,
	"SessionClose":          later,
	"EvictionOfAHeldTicket": later,
	"Inherited":             "a member that notices a death later than the others tells it to the next holder but one: wrong to the safe side",
}

var unsupportedPrimitives = map[string]string{"SetPermits": notResized, "SetPermitsStay": notResized}

const notResized = "a minority that missed the change would go on with the old capacity"

const (
	members = "each member keeps it by itself"
	permits = "several permits have no limit over a majority"
	cells   = "a quorum has no cells"
	later   = "a waiter gets the other members itself, once its line has told it"
)

func init() {
	for _, rule := range []string{
		"LateAnswers",
		"Shrink", "ShrinkNeverGrows", "NoWaitKeepsOrder", "ConcurrentPermits", "ManyQueues", "Snapshots", "Follow", "FollowNeverMissesTheLast",
		"RandomSteps", "EvictionOfAWaitingTicket", "RenewInAFewExchanges", "ExpiryOfAWaiterThatDoesNotFit", "JoinStaysAsItWas",
		"Mismatch", "MismatchOfALatecomer", "LargestCapacity", "PrefixOfTheQueue",
	} {
		unsupported[rule] = permits
	}
	for _, rule := range []string{
		"HangingBackend", "EndedContext", "Cancellation", "LostCalls", "LostReplies", "LostAnswers", "WaitsGoOn", "ConcurrentCells", "LongNamesOfCells", "NamesOfCells",
		"WatchIsTold", "WatchNeverMissesTheLast", "Watch", "CellContention", "ManyCells", "Cells", "CellSize",
		"SwapIsIdempotent", "DeletedCells", "SwapComparesVersions", "HandOverCost", "BoundedExchanges",
	} {
		unsupported[rule] = cells
	}
	for _, rule := range []string{"Permits", "Mismatch", "Deadlock", "Inspection", "Shrinking", "HeldByTheClient"} {
		unsupportedPrimitives[rule] = permits
	}
	for _, rule := range []string{"LeaderValue", "Barrier", "DoubleBarrier", "Latch", "Values", "Watching", "Stored", "Closing", "Returning", "EndOfObserving"} {
		unsupportedPrimitives[rule] = cells
	}
}
