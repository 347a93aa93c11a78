package mysqllock_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

var open = drivertest.OpenURL

var full = os.Getenv("MYSQLLOCK_CONFORMANCE") == "full"

func TestMain(m *testing.M) {
	if !full {
		_ = flag.Set("rapid.checks", "30")
	}
	drivertest.Main(m)
}

// Promise: it keeps every rule of package driver. MYSQLLOCK_CONFORMANCE=full repeats what is
// repeated as often as on backends without a server.
func TestConformance(t *testing.T) {
	conform(t, mysqltest.Start(t))
}

// conform runs the suite on a server that all rules share, each rule with tables of
// its own, which the next one gets if they were left empty.
func conform(t *testing.T, s *mysqltest.Server) {
	var pool prefixes
	drivertest.Run(t, drivertest.Backend{
		TTL:   time.Second,
		Small: !full,
		Unsupported: map[string]string{
			"Stranger":              "nobody but the server sends to a client",
			"NoRights":              "being mended",
			"Member":                "being mended",
			"OtherUser":             "a server has the files",
			"NeighbourInTheProcess": "a server has the files",
			"Deaf":                  "being mended",
		},
		World: func(t testing.TB) drivertest.World { return world(t, s, &pool) },
	})
}

func world(t testing.TB, s *mysqltest.Server, pool *prefixes) drivertest.World {
	prefix := pool.get()
	t.Cleanup(func() {
		if !t.Failed() {
			empty(t, s, prefix)
			pool.put(prefix)
		}
	})
	proxy := mysqltest.NewProxy(t, s)
	return drivertest.World{
		Open: func(ctx context.Context) (driver.Driver, error) {
			return open(ctx, proxy.URL()+"?table_prefix="+prefix)
		},
		URL: s.URL() + "?table_prefix=" + prefix,
		Via: func(ctx context.Context, at func(string) string) (driver.Driver, error) {
			return open(ctx, strings.Replace(s.URL(), s.Addr, at(s.Addr), 1)+"?table_prefix="+prefix)
		},
		Hang: func() (resume func()) {
			proxy.Hang()
			return proxy.Resume
		},
		Late: func() (resume func()) {
			proxy.Late()
			return proxy.Resume
		},
		LoseMessages: func() (resume func()) { return loseNews(t, s, prefix) },
		Unreachable:  drivertest.NobodyAt("mysql://127.0.0.1:1/locks"),
	}
}

// prefixes are of tables that are there and empty: to make some takes half a second.
type prefixes struct {
	mu   sync.Mutex
	free []string
	made int
}

func (p *prefixes) get() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		prefix := p.free[n-1]
		p.free = p.free[:n-1]
		return prefix
	}
	p.made++
	return fmt.Sprintf("w%d_", p.made)
}

func (p *prefixes) put(prefix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, prefix)
}

var tables = []string{"queues", "tickets", "sessions", "news", "watches", "refused", "cells", "swaps"}

func empty(t testing.TB, s *mysqltest.Server, prefix string) {
	if s.Do("SHOW TABLES LIKE '"+strings.ReplaceAll(prefix, "_", `\_`)+"%'") == "" {
		return // the rule has opened nothing
	}
	var sql strings.Builder
	for _, table := range tables {
		fmt.Fprintf(&sql, "DELETE FROM %s%s;", prefix, table)
	}
	s.Do(sql.String())
}

// loseNews has the procedure that reads news throw them away.
func loseNews(t testing.TB, s *mysqltest.Server, prefix string) (resume func()) {
	all, err := mysqllock.Schema(prefix)
	if err != nil {
		t.Fatal(err)
	}
	park := ""
	for _, statement := range all {
		if strings.Contains(statement, "PROCEDURE "+prefix+"v2_park(") {
			park = statement
		}
	}
	if park == "" {
		t.Fatal("which procedure reads the news?")
	}
	replace := func(sql string) {
		s.Do("DROP PROCEDURE " + prefix + "v2_park;\nDELIMITER //\n" + strings.ReplaceAll(sql, "CREATE PROCEDURE", "CREATE DEFINER=`app`@`%` PROCEDURE") + "//\n")
	}
	replace(strings.Replace(park, "SELECT COUNT(*)", "DELETE FROM "+prefix+"news WHERE channel = p_channel; SELECT COUNT(*)", 1))
	return func() { replace(park) }
}
