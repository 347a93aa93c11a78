package pglock_test

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/pgtest"
)

const (
	ours = "application_name = 'interlock'"
	// Who listens looks whether the server is there, and asks who may send.
	listen = "(query LIKE 'LISTEN%' OR query = '-- ping' OR query LIKE 'SELECT a.pid FROM pg_catalog.pg_stat_get_activity%')"
)

// Promise: connections that are ended by an administrator, cut or silent, news that are
// lost, calls that are given up at any moment and an operator who evicts leave one
// holder at a time, tokens that grow, nobody waiting, and neither rows nor connections
// behind. PGLOCK_CYCLES makes it longer.
func TestChaos(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	disturbed(t, s, s.Addr, s.URL(), nil, nil)
}

// Promise: the same behind a pooler, which dies and is started again.
func TestChaosBehindAPooler(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	p := pgtest.StartPooler(t, s)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if !p.Alive() {
				_ = p.Again(nil)
			}
		}
	}()
	stop := sync.OnceFunc(func() { close(over); <-ended; p.Kill() })
	defer stop()
	disturbed(t, s, p.Addr, p.URL()+"&direct="+url.QueryEscape(s.URL()), p.Kill, stop)
}

func disturbed(t *testing.T, s *pgtest.Server, addr, base string, more, last func()) {
	const ttl = 2 * time.Second
	var all []*interlock.Client
	var proxies []*pgtest.Proxy
	for range 3 {
		p := pgtest.NewProxy(t, addr)
		proxies = append(proxies, p)
		all = append(all, clients(t, 1, strings.Replace(base, addr, p.Addr, 1), interlock.TTL(ttl))...)
	}
	operator := clients(t, 1, s.URL())[0]
	showTables(t, s)
	load := startLoad(t, all, 4, nil)
	evicted := 0
	acts := []func(p *pgtest.Proxy){
		func(*pgtest.Proxy) { s.Terminate("random() < 0.3 AND usename = 'postgres'") },
		func(*pgtest.Proxy) { s.Terminate(listen) },
		func(p *pgtest.Proxy) { p.Cut() },
		func(p *pgtest.Proxy) { p.Hang(); time.Sleep(rand.N(ttl / 4)); p.Cut(); p.Resume() },
		func(p *pgtest.Proxy) { p.Hang(); time.Sleep(rand.N(ttl / 4)); p.Resume() },
		func(p *pgtest.Proxy) {
			p.DropNotifications(true)
			time.Sleep(rand.N(ttl / 4))
			p.DropNotifications(false)
		},
		func(*pgtest.Proxy) { evicted += evict(t, operator) },
		func(*pgtest.Proxy) {
			if more != nil {
				more()
			}
		},
	}
	cycles := scaled("PGLOCK_CYCLES", 1)
	for range cycles {
		for _, i := range rand.Perm(len(acts)) {
			load.goesOn()
			acts[i](proxies[rand.IntN(len(proxies))])
		}
	}
	load.goesOn()
	load.end()
	t.Logf("%d times each, %d grants, %d evictions", cycles, load.grants.Load(), evicted)
	for _, c := range append(all, operator) {
		noError(t, c.Close())
	}
	if last != nil {
		last() // a pooler keeps its connections
	}
	nothingLeft(t, s)
	if n := s.SQL("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"); n != "0" {
		t.Errorf("%s deadlocks", n)
	}
}

// evict asks for one ticket of each queue to be given up.
func evict(t *testing.T, c *interlock.Client) (n int) {
	for q, err := range c.Admin().Queues(t.Context(), "load/") {
		if err != nil {
			return n // its connection has been ended
		}
		all := append(q.Holders, q.Waiters...)
		m := all[rand.IntN(len(all))]
		if c.Admin().Evict(t.Context(), q.Name, m.ID, false) == nil {
			n++
		}
	}
	return n
}

// nothingLeft: what clients that are closed have left goes away, in time.
func nothingLeft(t *testing.T, s *pgtest.Server) {
	t.Helper()
	busy.Until(t, "no connection is left", func() bool { return len(s.Backends("query LIKE '%interlock%' OR "+listen)) == 0 })
	busy.Until(t, "no ticket is left", func() bool {
		s.SQL("SELECT interlock.settle(q) FROM interlock.tidy() q")
		return s.SQL("SELECT (SELECT count(*) FROM interlock.ticket), (SELECT coalesce(sum(tickets), 0) FROM interlock.queue)") == "0|0"
	})
	s.SQL(`UPDATE interlock.refused SET until = 1; UPDATE interlock.watch SET since = 1; UPDATE interlock.queue SET last = 1, watched = false, slow = 0;
		UPDATE interlock.session SET expires = 1; UPDATE interlock.fixed SET ends = 1; SELECT interlock.tidy()`)
	for _, table := range []string{"session", "queue", "ticket", "refused", "watch", "fixed"} {
		if n := s.SQL("SELECT count(*) FROM interlock." + table); n != "0" {
			t.Errorf("%s rows are left in %s", n, table)
		}
	}
}
