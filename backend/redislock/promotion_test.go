package redislock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// grants collects the tokens of a queue, over a failover too, where each must be new.
type grants struct {
	t     *testing.T
	queue string
	last  uint64
}

func (g *grants) got(how string, tk driver.Ticket) {
	g.t.Helper()
	if !tk.Held || tk.Token <= g.last || tk.Token >= driver.MaxToken {
		g.t.Errorf("%s: %s: the token %d follows %d", g.queue, how, tk.Token, g.last)
	}
	g.last = max(g.last, tk.Token)
}

// take makes three grants of different ways: at once, at once to one with ReportDeath, by a hand-over.
func (g *grants) take(how string, a, b *driver.Opened) {
	g.t.Helper()
	ctx := g.t.Context()
	join := func(s *driver.Opened, robust bool) driver.Ticket {
		g.t.Helper()
		r := exclusive(g.queue)
		r.ReportDeath = robust
		tk, err := s.Join(ctx, r)
		if err != nil {
			g.t.Fatalf("%s: %s: %v", g.queue, how, err)
		}
		return tk
	}
	leave := func(s *driver.Opened, tk driver.Ticket) {
		g.t.Helper()
		if err := s.Leave(ctx, tk, true); err != nil {
			g.t.Fatalf("%s: %s: %v", g.queue, how, err)
		}
	}
	for _, robust := range []bool{false, true} {
		tk := join(a, robust)
		g.got(how, tk)
		renew(g.t, a, tk)
		leave(a, tk)
	}
	first := join(a, false)
	g.got(how, first)
	second, third := join(b, false), join(b, false)
	leave(a, first)
	second = awaited(g.t, b, second)
	g.got(how+", handed over", second)
	leave(b, second)
	third = awaited(g.t, b, third)
	g.got(how+", handed over again", third)
	leave(b, third)
}

// raises are what a lock's tokens may have been raised to, in grants of the server's clock
// (100,000 a second) from now.
var raises = map[string][]int64{
	"not raised":        nil,
	"below the clock":   {-1e9},
	"a second":          {1e5},
	"a day":             {86400e5},
	"a day, then less":  {86400e5, 1e5, 5e5},
	"less, then a day":  {1e5, 86400e5},
	"to half the range": {1 << 50},
}

func queueOf(raised string) string { return strings.NewReplacer(" ", "-", ",", "").Replace(raised) }

func raise(t *testing.T, d driver.Driver, queue string, all []int64) (floor uint64) {
	t.Helper()
	for _, n := range all {
		to := uint64(time.Now().UnixMicro()/10 + n)
		floor = max(floor, to)
		noError(t, d.Raise(t.Context(), queue, to))
	}
	return floor
}

// synced waits until the replica has what the master has written.
func synced(t *testing.T, master, replica *redistest.Server) {
	t.Helper()
	offset := func(s *redistest.Server, of string) (n int64) {
		_, rest, _ := strings.Cut(fmt.Sprint(do(t, s, "INFO", "replication")), "\n"+of+":")
		fmt.Sscan(rest, &n)
		return n
	}
	written := offset(master, "master_repl_offset")
	busy.Until(t, "the replica is in sync", func() bool { return written > 0 && offset(replica, "slave_repl_offset") >= written })
}

// Promise: a replica that has not received the last grants and becomes the master gives out
// no token again, of locks whose tokens were raised neither; and none falls below a raise.
func TestNoTokenComesTwiceOverAFailover(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("in demand=%v", busy), func(t *testing.T) {
			t.Parallel()
			old, next := replicated(t)
			d, a := session(t, old.URL(), time.Minute)
			_, b := session(t, old.URL(), time.Minute)
			all := map[string]*grants{}
			for raised, floors := range raises {
				g := &grants{t: t, queue: queueOf(raised)}
				all[raised] = g
				if busy { // raised while held, with one who waits
					first := errtest.Must(a.Join(t.Context(), exclusive(g.queue)))(t)
					second := errtest.Must(b.Join(t.Context(), exclusive(g.queue)))(t)
					g.got("before", first)
					g.last = max(g.last, raise(t, d, g.queue, floors))
					noError(t, a.Leave(t.Context(), first, true))
					second = awaited(t, b, second)
					g.got("raised while it waited", second)
					noError(t, b.Leave(t.Context(), second, true))
				} else {
					g.last = raise(t, d, g.queue, floors)
				}
			}
			synced(t, old, next)
			do(t, next, "REPLICAOF", "NO", "ONE") // it has no more of the old one from now on
			for range 20 {
				for _, g := range all {
					g.take("not replicated", a, b)
				}
			}
			_, a = session(t, next.URL(), time.Minute)
			_, b = session(t, next.URL(), time.Minute)
			for range 3 {
				for _, g := range all {
					g.take("after the failover", a, b)
				}
			}
			next.FlushScripts()
			for raised, g := range all {
				left := do(t, next, "PTTL", "interlock:{"+g.queue+"}:t").(int64)
				if forever := left == -1; forever != (len(raises[raised]) > 0 && raised != "below the clock") {
					t.Errorf("%s: the last token is kept for %d ms", raised, left)
				}
			}
		})
	}
}

// Promise: so it is in a Cluster, when a replica takes over.
func TestNoTokenComesTwiceOverAFailoverInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, redistest.Replicas(1))
	url := "redis://" + strings.Join(c.Addrs(), ",")
	d, a := session(t, url, time.Minute)
	_, b := session(t, url, time.Minute)
	var all []*grants
	for _, raised := range []string{"not raised", "a day"} {
		name := queueOf(raised)
		for i := 0; c.Owner(name) != c.Nodes[0]; i++ {
			name = fmt.Sprintf("%s%d", queueOf(raised), i)
		}
		g := &grants{t: t, queue: name}
		g.last = raise(t, d, name, raises[raised])
		all = append(all, g)
	}
	old, next := c.Nodes[0], c.Nodes[3]
	key := all[0].queue
	synced(t, old, next)
	do(t, next, "CONFIG", "SET", "masterauth", "wrong") // it gets no further
	old.KillConnections("replica")
	for range 20 {
		for _, g := range all {
			g.take("not replicated", a, b)
		}
	}
	old.Kill()
	do(t, next, "CLUSTER", "FAILOVER", "TAKEOVER")
	busy.Until(t, "the replica serves", func() bool {
		_, err := next.Do("EXISTS", "interlock:{"+key+"}:t")
		return err == nil
	})
	for _, s := range []*driver.Opened{a, b} {
		r := exclusive(key)
		busy.Until(t, "a client finds the new master", func() bool {
			tk, err := s.Join(t.Context(), r)
			if r.Retry = true; err != nil {
				t.Log(err)
				return false
			}
			return s.Leave(t.Context(), tk, true) == nil
		})
	}
	for range 3 {
		for _, g := range all {
			g.take("after the failover", a, b)
		}
	}
}

// Promise: who asks a master that has become a replica is told so, and what comes next; over the
// URL the next try connects anew.
func TestAReplicaIsNamed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := errtest.Must(rueidis.NewClient(patientOption(s)))(t)
	defer client.Close()
	program := errtest.Must(redislock.New(t.Context(), client))(t)
	defer program.Close()
	of := errtest.Must(program.Open(t.Context(), driver.SessionOptions{TTL: time.Minute}))(t)
	_, own := session(t, s.URL()+"?"+patient, time.Minute)
	do(t, s, "REPLICAOF", "127.0.0.1", "1")
	for next, session := range map[string]*driver.Opened{"the next try connects anew": own, "the program's client": of} {
		_, err := session.Join(t.Context(), exclusive("q"))
		says(t, err, "READONLY", "a replica now", next)
		if driver.IsPermanent(err) {
			t.Errorf("taken for one that stays: %v", err)
		}
	}
	do(t, s, "REPLICAOF", "NO", "ONE")
	for _, session := range []*driver.Opened{own, of} {
		busy.Until(t, "a master again", func() bool { _, err := session.Join(t.Context(), exclusive("q")); return err == nil })
	}
}
