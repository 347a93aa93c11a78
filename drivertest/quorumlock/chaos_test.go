package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// rounds is how often a member is disturbed: QUORUM_ROUNDS, or a few.
func rounds(t *testing.T, few int) int {
	text := os.Getenv("QUORUM_ROUNDS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("QUORUM_ROUNDS: %v", err)
	}
	return n
}

// member is one that can be disturbed.
type member interface {
	// disturb does something to it, says what, and returns what ends it.
	disturb() (what string, mend func())

	// silence has it not answer, until it is ended. It keeps its data.
	silence() (mend func())
}

// redis is one server.
type redis struct {
	server *redistest.Server
	proxy  *redistest.Proxy
}

func startRedis(t *testing.T, n int) (servers []*redis, urls []string) {
	for range n {
		s := redistest.Start(t)
		p := redistest.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", s.Port))
		servers = append(servers, &redis{s, p})
		urls = append(urls, "redis://"+p.Addr)
	}
	return servers, urls
}

func quorumURL(urls []string, options ...string) string {
	var parts []string
	for _, u := range urls {
		parts = append(parts, "member="+url.QueryEscape(u))
	}
	return "quorum:?" + strings.Join(append(parts, options...), "&")
}

func (r *redis) disturb() (what string, mend func()) {
	switch rand.IntN(3) {
	case 0:
		r.server.Kill()
		return "killed, and empty afterwards", r.server.Restart
	case 1:
		r.wipe()
		return "restarted empty", func() {}
	}
	return silence(r.server, r.proxy)
}

func (r *redis) silence() (mend func()) {
	_, mend = silence(r.server, r.proxy)
	return mend
}

// wipe restarts a server, which keeps no data.
func (r *redis) wipe() {
	r.server.Kill()
	r.server.Restart()
}

// silence has a server not answer, in one of several ways.
func silence(s *redistest.Server, p *redistest.Proxy) (what string, mend func()) {
	switch rand.IntN(4) {
	case 0:
		s.Pause()
		return "stopped", s.Resume
	case 1:
		p.Hang()
		return "cut off without a word", p.Resume
	case 2:
		p.Refuse(true)
		p.Cut()
		return "refused", func() { p.Refuse(false) }
	default:
		p.Late()
		return "late", p.Resume
	}
}

// group is a master and its replica, watched by three Sentinels.
type group struct {
	t *testing.T
	*redistest.Sentinels
}

func startGroups(t *testing.T, n int) (groups []*group, urls []string) {
	for range n {
		s := redistest.StartSentinel(t, redistest.Proxied())
		s.BeHasty()
		groups = append(groups, &group{t, s})
		urls = append(urls, "redis://"+strings.Join(s.SentinelAddrs(), ",")+"?replicas=1&replica_timeout=100ms&master="+s.Name)
	}
	return groups, urls
}

// disturb ends when the Sentinels agree, and the replica has all that the master has.
func (g *group) disturb() (what string, mend func()) {
	var end func()
	master := g.Master()
	switch rand.IntN(5) {
	case 0: // the Sentinels may replace it meanwhile
		master.Kill()
		what, end = "master killed", master.Restart
	case 1:
		master.Kill()
		master.Restart()
		what, end = "master restarted empty", func() {}
	case 2:
		master.Kill()
		g.WaitFailover(master)
		what, end = "master killed, and replaced", master.Restart
	case 3:
		what, end = silence(master, g.proxy(master))
		what = "master " + what
	default:
		replica := g.Replica()
		what, end = silence(replica, g.proxy(replica))
		what = "replica " + what
	}
	return what, func() { end(); g.heal() }
}

func (g *group) silence() (mend func()) {
	for _, s := range g.Nodes {
		s.Pause()
	}
	return func() {
		for _, s := range g.Nodes {
			s.Resume()
		}
		g.heal()
	}
}

func (g *group) heal() {
	g.t.Helper()
	for began := time.Now(); !g.Whole(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			g.t.Error("a group of Sentinels is not whole again")
			return
		}
	}
}

func (g *group) proxy(s *redistest.Server) *redistest.Proxy {
	return g.Proxies[slices.Index(g.Nodes, s)]
}

// Promise: of five Redis servers any two may be killed, restarted empty, stopped or cut off at a time, again and again
// under load: never do two hold a lock at once, no token falls, and the locks go on being granted meanwhile. If three
// or more are silent they go on afterwards. All five are members again in the end.
//
// A member that has lost its data counts as one of the two until it has been there for a TTL.
func TestAnyMinorityMayFail(t *testing.T) {
	servers, urls := startRedis(t, 5)
	disturb(t, quorumURL(urls), time.Second, servers, rounds(t, 4))
}

// Promise: so it is with three groups of Redis servers, each watched by Sentinels, of which any one may also replace
// its master: with replicas=1 the new master has all grants that count.
func TestAnySentinelGroupMayFail(t *testing.T) {
	groups, urls := startGroups(t, 3)
	disturb(t, quorumURL(urls), 2*time.Second, groups, rounds(t, 2))
}

// disturb has clients hold locks on a quorum while its members are disturbed so often, a minority at a time,
// or most of them silent.
func disturb[M member](t *testing.T, target string, ttl time.Duration, members []M, rounds int) {
	awaitMembers(t, target, ttl, len(members))
	c := errtest.Must(interlock.Open(t.Context(), target, interlock.TTL(ttl)))(t)
	defer c.Close()
	goesOn := func(when string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Mutex("chaos/on").Do(ctx, func(context.Context) error { return nil }); err != nil && !errors.Is(err, interlock.ErrLost) {
			t.Errorf("%s: %v", when, err)
		}
	}
	minority := (len(members) - 1) / 2
	var n atomic.Int64
	load := chaos.Load{URL: target, TTL: ttl, Clients: 3, Each: 2, Times: 1 << 30, Hold: ttl / 2}
	load.Until = func() bool { return n.Load() >= int64(rounds) || t.Failed() }
	chaos.Run(t, load, func() {
		if load.Until() {
			time.Sleep(time.Millisecond)
			return
		}
		var what []string
		var mend []func()
		some := rand.Perm(len(members))
		few := 1 + rand.IntN(minority)
		silent := func(i int) {
			what, mend = append(what, fmt.Sprint(i, " silent")), append(mend, members[i].silence())
		}
		disturbed := func(i int) {
			did, end := members[i].disturb()
			what, mend = append(what, fmt.Sprint(i, " ", did)), append(mend, end)
		}
		each := func(some []int, do func(int)) {
			for _, i := range some {
				do(i)
			}
		}
		switch rand.IntN(8) {
		case 0: // most or all
			each(some[:minority+1+rand.IntN(len(members)-minority)], silent)
			time.Sleep(rand.N(ttl * 3 / 2))
		case 1, 2: // some, so that locks have no place there, and then others, just before these answer again
			each(some[:few], silent)
			goesOn("while a minority is silent")
			each(some[few:few+1+rand.IntN(minority)], disturbed)
		default:
			each(some[:few], disturbed)
			time.Sleep(rand.N(ttl * 3 / 2))
			goesOn("while a minority is disturbed")
		}
		for _, end := range mend {
			end()
		}
		goesOn("after members were disturbed")
		awaitMembers(t, target, ttl, len(members))
		t.Logf("round %d: %s", n.Add(1), strings.Join(what, ", "))
	})
}

// awaitMembers waits until so many members count.
func awaitMembers(t *testing.T, target string, ttl time.Duration, n int) {
	t.Helper()
	c := chaos.Open(t, target, ttl)
	defer c.Close()
	var last string
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		good := 0
		last = ""
		for _, f := range c.Admin().Check(t.Context()) {
			if f.Check == "members" || f.Check == "restarts" {
				last += f.Detail + "; "
				if f.Status == "ok" {
					good++
				}
			}
		}
		if good == 2 {
			return
		}
	}
	t.Fatalf("not all %d members count again: %s", n, last)
}

// Promise: members that have lost their data, as many as may, give a lock to nobody while its holder, who is cut off
// from all members, still has it.
func TestServersWithoutTheirDataGiveNoLockAway(t *testing.T) {
	const ttl = 4 * time.Second
	servers, urls := startRedis(t, 5)
	awaitMembers(t, quorumURL(urls), ttl, len(servers))
	var own []*redistest.Proxy // of the holder
	var ownURLs []string
	for _, s := range servers {
		p := redistest.NewProxy(t, s.server.Addr)
		own, ownURLs = append(own, p), append(ownURLs, "redis://"+p.Addr)
	}
	open := func(urls []string) *interlock.Client {
		c := errtest.Must(interlock.Open(t.Context(), quorumURL(urls), interlock.TTL(ttl)))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
	for _, p := range own[3:] {
		p.Refuse(true) // so that the holder has the first three
	}
	holder, other := open(ownURLs), open(urls)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var w chaos.Witness
	enter := func(c *interlock.Client) {
		t.Helper()
		l, err := c.Mutex("q").TryAcquire(ctx)
		for err != nil && ctx.Err() == nil { // again and again, rather than in one line
			time.Sleep(20 * time.Millisecond)
			l, err = c.Mutex("q").TryAcquire(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Enter(l); err != nil {
			t.Error(err)
		}
	}
	enter(holder)
	for _, p := range own {
		p.Hang()
	}
	for _, s := range servers[:2] {
		s.wipe()
	}
	enter(other)
	for _, p := range own {
		p.Resume()
	}
}

// Promise: where tokens follow clocks, as those of Redis do, they grow though each member has lost its data, one after
// the other or all at once.
func TestTokensGrowThoughEachMemberHasLostItsData(t *testing.T) {
	const ttl = time.Second
	servers, urls := startRedis(t, 3)
	target := quorumURL(urls)
	c := errtest.Must(interlock.Open(t.Context(), target, interlock.TTL(ttl)))(t)
	defer c.Close()
	var last uint64
	grows := func(when string) {
		t.Helper()
		awaitMembers(t, target, ttl, len(servers))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Mutex("q").Do(ctx, func(ctx context.Context) error {
			lease, _ := c.Mutex("q").Held(ctx)
			if lease.Token() <= last {
				t.Errorf("%s the token %d follows %d", when, lease.Token(), last)
			}
			last = lease.Token()
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	grows("at first")
	for i, s := range servers {
		s.wipe()
		grows(fmt.Sprintf("after %d members have lost their data", i+1))
	}
	for _, s := range servers {
		s.server.Kill()
	}
	for _, s := range servers {
		s.server.Restart()
	}
	grows("after all have lost it at once")
}

// Promise: a lock outlives the loss of the data of each member, one after the other: the next one may be restarted when
// the doctor says that all members count.
func TestALockOutlivesARestartOfEachMember(t *testing.T) {
	const ttl = 3 * time.Second
	servers, urls := startRedis(t, 3)
	target := quorumURL(urls)
	awaitMembers(t, target, ttl, len(servers))
	c := errtest.Must(interlock.Open(t.Context(), target, interlock.TTL(ttl)))(t)
	defer c.Close()
	lease := errtest.Must(c.Mutex("q").Acquire(t.Context()))(t)
	for i, s := range servers {
		s.wipe()
		awaitMembers(t, target, ttl, len(servers))
		time.Sleep(ttl / 10) // a heartbeat comes after a third of it
		if err := lease.Err(); err != nil {
			t.Fatalf("after the restart of %d members: %v", i+1, err)
		}
	}
	errtest.Is(t, lease.Release(), nil)
}
