package zklock_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// client opens a client of servers, in its own process's account of time.
func client(t testing.TB, addrs, options string) *interlock.Client {
	t.Helper()
	c := errtest.Must(interlock.Open(t.Context(), "zk://"+addrs+"/app?"+options))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// Promise: a holder knows of its loss before another holds. A follower whose link to
// the leader is frozen goes on answering its clients, while the leader gives their
// locks away: they have to give up before. The shortest session is two ticks.
func TestHolderBehindAFrozenFollowerGivesUpBeforeTheNextOneHolds(t *testing.T) {
	t.Parallel()
	rounds := repeated(t, "ZKLOCK_FREEZES", 2)
	const tick = 500 * time.Millisecond
	e := zktest.StartEnsemble(t, 3, zktest.Tick(tick), zktest.Config("initLimit", "100"), zktest.Config("syncLimit", "60"))
	for _, c := range []struct {
		name   string
		ttl    time.Duration
		freeze func(*zktest.Proxy, *interlock.Lease, func())
	}{
		{"five ticks", 5 * tick, freezeAtAnyTime},
		{"two ticks", 2 * tick, freezeAtAnyTime},
		{"in the middle of a heartbeat", 2 * tick, freezeInHeartbeat},
	} {
		t.Run(c.name, func(t *testing.T) {
			var gaps []time.Duration
			for range rounds {
				gaps = append(gaps, frozen(t, e, c.ttl, c.freeze))
			}
			slices.Sort(gaps)
			t.Logf("%d rounds: given up before the next one held by %v at least, %v in the middle, %v at most",
				rounds, gaps[0], gaps[rounds/2], gaps[rounds-1])
		})
	}
}

// repeated is how often a test is repeated: several times as often as usual if the
// environment says so.
func repeated(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number of repetitions", variable, text)
	}
	return n
}

// frozen freezes the follower of a holder, and returns how long before the next one
// held the lock it was given up.
func frozen(t *testing.T, e *zktest.Ensemble, ttl time.Duration, freeze func(*zktest.Proxy, *interlock.Lease, func())) time.Duration {
	t.Helper()
	follower, leader := e.Followers()[0], e.Leader()
	via := zktest.NewProxy(t, follower.Addr)
	defer via.Close()
	options := "ttl=" + ttl.String()
	a, b := client(t, via.Addr, options), client(t, leader.Addr, options)
	defer a.Close()
	defer b.Close()
	lease := errtest.Must(a.Mutex("job").Acquire(t.Context()))(t)
	gaveUp := make(chan time.Time, 1)
	go func() {
		<-lease.Done()
		gaveUp <- time.Now()
	}()
	freeze(via, lease, func() { e.Freeze(follower) })
	next, err := b.Mutex("job").Acquire(t.Context())
	got := time.Now()
	noError(t, err)
	switch err := lease.Err(); {
	case err == nil:
		t.Fatalf("two hold: the one behind the frozen follower has %v left", lease.Remaining())
	case !errors.Is(err, interlock.ErrLost):
		t.Errorf("the lease ended with %v", err)
	}
	gap := got.Sub(<-gaveUp) // below zero only if this process has paused, and the lease was judged by its clock
	t.Logf("given up %v before the next one got it", gap)
	if next.Token() <= lease.Token() {
		t.Errorf("the token %d follows %d", next.Token(), lease.Token())
	}
	if err := next.Release(); err != nil && !errors.Is(err, interlock.ErrLost) { // a second is short on a busy machine
		t.Error(err)
	}
	e.Thaw(follower)
	e.Followers() // wait until it is back
	return gap
}

func freezeAtAnyTime(_ *zktest.Proxy, _ *interlock.Lease, freeze func()) {
	time.Sleep(rand.N(800 * time.Millisecond))
	freeze()
}

// freezeInHeartbeat freezes the link while the follower has not got a heartbeat
// yet, asks the leader, or has the leader's answer, which is late.
func freezeInHeartbeat(via *zktest.Proxy, lease *interlock.Lease, freeze func()) {
	time.Sleep(rand.N(500 * time.Millisecond)) // not always the first one
	isSync := zktest.With(zktest.OpSync)
	beats := make(chan zktest.Frame, 1)
	var seen <-chan zktest.Frame = beats
	release := func() {}
	switch rand.IntN(3) {
	case 0:
		h := via.HoldRequests(isSync)
		seen, release = h.Held(), h.Release
	case 1:
		h := via.HoldReplies(isSync)
		seen, release = h.Held(), h.Release
	default:
		via.Observe(func(f zktest.Frame) {
			if !f.Reply && isSync(f) {
				select {
				case beats <- f:
				default:
				}
			}
		})
	}
	select {
	case <-seen:
	case <-lease.Done(): // this machine has paused
	}
	freeze()
	release()
}

// A client of several servers goes to another one in time, and keeps its lock.
func TestLockIsKeptWhenItsServerDies(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3)
	const ttl = 15 * time.Second // of which a heartbeat proves ten, and an election may take five
	lease := errtest.Must(client(t, strings.Join(e.Addrs(), ","), "ttl="+ttl.String()).Mutex("job").Acquire(t.Context()))(t)
	for range 2 {
		dead := e.KillLeader()
		killed := time.Now()
		busy.Until(t, "the lease is renewed without the dead server", func() bool {
			if err := lease.Err(); err != nil {
				t.Fatalf("lost with its leader: %v", err)
			}
			return time.Now().Add(lease.Remaining()).After(killed.Add(ttl))
		})
		e.Restart(dead)
		e.Followers()
	}
	noError(t, lease.Release())
}

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
