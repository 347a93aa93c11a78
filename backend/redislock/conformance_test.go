package redislock_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/redistest"
)

var full = os.Getenv("REDISLOCK_CONFORMANCE") == "full"

func TestMain(m *testing.M) {
	if !full {
		_ = flag.Set("rapid.checks", "30")
	}
	drivertest.Main(m)
}

// Promise: it keeps every rule of package driver. REDISLOCK_CONFORMANCE=full repeats what is
// repeated as often as on backends without a server.
func TestConformance(t *testing.T) {
	s := redistest.Start(t)
	conform(t, drivertest.Backend{Small: !full}, []*redistest.Server{s}, "redis://"+s.Addr, rueidis.ClientOption{InitAddress: []string{s.Addr}})
}

// The keys of each script must be in one slot, and nodes be reached: rules that have each script run, and
// those about connections. What scripts do is checked on one server, in all shapes.

func TestConformanceInACluster(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	conform(t, drivertest.Backend{Shape: "mutex", Small: true, Only: slices.Concat(connections, uses, inACluster)}, c.Nodes, "redis://"+strings.Join(c.Addrs(), ","), rueidis.ClientOption{InitAddress: c.Addrs()})
}

// The servers are as others. What differs is how clients find them, which every exchange
// goes through: rules in which connections are made, cut and waited on, and those that
// use every method.
func TestConformanceBehindSentinels(t *testing.T) {
	s := redistest.StartSentinel(t)
	conform(t, drivertest.Backend{Shape: "mutex", Small: true, Only: connections}, s.Nodes, "redis://"+strings.Join(s.SentinelAddrs(), ",")+"?master="+s.Name,
		rueidis.ClientOption{InitAddress: s.SentinelAddrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.Name}})
}

// inACluster are rules that have other scripts run than uses, and go further than connections.
var inACluster = []string{
	"Shrink", "Inherited", "KeepByAnotherSession", "RenewOfAStray", "KeptTicketsEndCleanly", "EvictionOfAHeldTicket", "Force", "LeaveBeforeItsJoin", "Crowd",
	"ManyQueues", "Stranger", "NoRights", "Member", "Impostor", "SilentHost", "Deaf", "Mute", "Repeater", "UnreachableBackend",
}

var connections = []string{
	"NoLeftovers", "HangingBackend", "LostMessages", "CloseEndsCalls", "CloseWithOpenSessions",
	"AwaitReturnsOnceHeld", "CancelledAwaits", "WaitsGoOn", "ExpiryOfAHeldTicket", "Proof", "LateAnswers", "LostAnswers", "RecentProofs", "RenewInAFewExchanges", "Wanted", "Ask",
	"TokensOverRestart", "SessionClose", "SessionDeath", "Watch", "WatchNeverMissesTheLast", "Follow", "FollowNeverMissesTheLast",
	"Queues", "Cells", "IdleWaiters", "BoundedExchanges", "HandOverCost", "ProcessesThatAreKilled", "LostReplies", "Cancellation", "EndedContext",
	"Check", "RandomSteps", "ConcurrentLocks", "ConcurrentReadersAndWriters", "ConcurrentPermits", "ConcurrentCells",
}

// conform runs the suite on servers that all rules share.
func conform(t *testing.T, b drivertest.Backend, servers []*redistest.Server, url string, o rueidis.ClientOption) {
	b.TTL = time.Second
	b.Unsupported = map[string]string{"OtherUser": "a server has the files", "NeighbourInTheProcess": "a server has the files", "StoppedInAChange": "a script is never in the middle for others"}
	b.World = worlds(servers, url, o)
	drivertest.Run(t, b)
}

// worlds makes worlds on servers, each behind a prefix of its own. Clients in this
// process bring a client of Redis of their own, which reaches each server through a
// proxy, so that rules can disturb it; those in other processes use the URL.
func worlds(servers []*redistest.Server, url string, o rueidis.ClientOption) func(testing.TB) drivertest.World {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return func(t testing.TB) drivertest.World {
		prefix := "w" + rand.Text() + "/"
		via := &proxies{t: t}
		t.Cleanup(func() {
			for _, s := range servers {
				leakedNothing(t, s, prefix)
			}
		})
		return drivertest.World{
			Open: func(ctx context.Context) (driver.Driver, error) { return openVia(ctx, via.at, o, prefix) },
			Via: func(ctx context.Context, at func(string) string) (driver.Driver, error) {
				o := o
				o.DialCtxFn = dialAt(at)
				return redislock.Connect(ctx, o, redislock.KeyPrefix(prefix))
			},
			URL:          strings.Replace(url, "redis:", "redisworld:", 1) + separator + "prefix=" + prefix,
			Hang:         via.hang,
			Late:         via.late,
			LoseMessages: via.loseMessages,
			Stranger: func(to []*driver.Opened, last uint64) {
				for _, session := range to {
					for n := range 101 {
						publish(t, servers[0], session, forged(fmt.Sprint(n), last)...)
					}
				}
			},
			NoRights: func(ctx context.Context) (driver.Driver, error) {
				for _, s := range servers {
					if _, err := s.Do("ACL", "SETUSER", "stranger", "on", ">secret", "+@all", "-@dangerous", "resetkeys", "resetchannels"); err != nil {
						return nil, err
					}
				}
				o := o
				o.Username, o.Password = "stranger", "secret"
				return redislock.Connect(ctx, o, redislock.KeyPrefix(prefix))
			},
			Damages: func(name string) []drivertest.Damage { return damages(servers, prefix, name) },
			Unreachable: func(ctx context.Context) error {
				d, err := openURL(ctx, "redis://127.0.0.1:1")
				if err == nil {
					d.Close()
				}
				return err
			},
		}
	}
}

func openURL(ctx context.Context, url string) (driver.Driver, error) {
	u, err := driver.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redislock.OpenBehind(ctx, u)
}

// Other processes of a world open it by this scheme.
func init() { driver.Register("redisworld", redislock.OpenBehind) }

const resized = "semaphore, resized\x00" // ends the state of a queue that keeps its capacity

// leakedNothing makes sure that every key goes away by itself, but for cells that
// exist, tokens that were raised, and queues that were resized, with their tokens.
func leakedNothing(t testing.TB, s *redistest.Server, prefix string) {
	for _, k := range s.Keys() {
		if !strings.HasPrefix(k, prefix) && !strings.HasPrefix(k, "interlock:{"+prefix) {
			continue
		}
		left, err := s.Do("PTTL", k)
		if err != nil || left != int64(-1) || strings.Contains(k, "harmed") {
			continue
		}
		if exists, _ := s.Do("HGET", k, "exists"); strings.HasSuffix(k, ":c") && fmt.Sprint(exists) == "1" {
			continue
		}
		if state, _ := s.Do("HGET", strings.TrimSuffix(k, ":t")+":q", "state"); strings.HasSuffix(k, "}:t") && strings.HasSuffix(fmt.Sprint(state), resized) {
			continue
		}
		if last, _ := s.Do("GET", k); strings.HasSuffix(k, "}:t") && strings.HasPrefix(fmt.Sprint(last), "r") && !strings.HasSuffix(fmt.Sprint(last), "+0") {
			continue
		}
		if state, _ := s.Do("HGET", k, "state"); strings.HasSuffix(k, "}:q") && strings.HasSuffix(fmt.Sprint(state), resized) {
			continue
		}
		t.Errorf("the key %q stays for ever", k)
	}
}

// damages are what can be done to the keys of a name.
func damages(servers []*redistest.Server, prefix, name string) (all []drivertest.Damage) {
	base := "interlock:{" + prefix + name + "}:"
	add := func(what string, commands ...[]string) {
		all = append(all, drivertest.Damage{What: what, Do: func() (err error) {
			for _, c := range commands {
				for _, s := range servers { // one of which has the key
					if _, err = s.Do(c...); err == nil || !strings.Contains(err.Error(), "MOVED ") {
						break
					}
				}
			}
			return err
		}})
	}
	long, longer := strings.Repeat("\xff", 1<<20), strings.Repeat("x", 70<<20) // than an answer may be
	if len(servers) == 1 {                                                     // in a Cluster all calls of a client to a node share a connection, and wait for it
		add("a huge value", []string{"HSET", base + "c", "value", longer})
		const id = "fedcba9876543210fedcba9876543210"
		add("a huge ticket", []string{"HSET", base + "q", id, longer}, []string{"ZADD", base + "e", "9e15", id})
	}
	for _, key := range []string{base + "q", base + "e", base + "w", base + "t", base + "c", base + "x", base + "f", prefix + name} {
		for _, data := range []string{"", "-1", long} {
			add(fmt.Sprintf("%s is %.10q", key, data), []string{"DEL", key}, []string{"SET", key, data})
		}
		for field, data := range map[string]string{"state": long, "value": "x", "version": "9223372036854775808", "exists": "-1", "../../x": ""} {
			if strings.HasSuffix(key, "q") || strings.HasSuffix(key, "c") {
				add(fmt.Sprintf("%s of %s is %.10q", field, key, data), []string{"HSET", key, field, data})
			}
		}
		add(key+" is a list", []string{"DEL", key}, []string{"RPUSH", key, "x"})
	}
	return all
}

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	primitives.Run(t, primitives.Backend{
		World: worlds([]*redistest.Server{s}, "redis://"+s.Addr, rueidis.ClientOption{InitAddress: []string{s.Addr}}),
		TTL:   time.Second,
	})
}
