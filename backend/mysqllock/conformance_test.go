package mysqllock_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
)

var noError = errtest.None

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
			"OtherUser":             "a server has the files",
			"NeighbourInTheProcess": "a server has the files",
		},
		World: func(t testing.TB) drivertest.World { return world(t, s, &pool) },
	})
}

// Promise: a pool of the program's own, which prepares each statement unless its DSN says otherwise, does as well.
func TestConformanceOverAPoolOfTheProgram(t *testing.T) {
	s := mysqltest.Start(t)
	var pool prefixes
	drivertest.Run(t, drivertest.Backend{TTL: time.Second, Small: true, Shape: "mutex",
		Only: []string{"LostCalls", "RenewInAFewExchanges", "RenewSaysWhatBecame", "RenewOfFixedTickets", "Snapshots", "ManyQueues", "Queues", "Cells", "Resize", "InheritedAmongReaders", "IdleWaiters", "Order", "LeaveGrantsTheNext", "HandOverCost", "LostMessages"}, // each client has a pool: grants come as news
		World: func(t testing.TB) drivertest.World {
			w := world(t, s, &pool)
			u := errtest.Must(url.Parse(w.URL))(t)
			w.Open = func(ctx context.Context) (driver.Driver, error) {
				db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
				t.Cleanup(func() { db.Close() })
				return mysqllock.New(ctx, db, mysqllock.TablePrefix(u.Query().Get("table_prefix")))
			}
			return w
		}})
}

func world(t testing.TB, s *mysqltest.Server, pool *prefixes) drivertest.World {
	prefix := pool.get()
	t.Cleanup(func() {
		if !t.Failed() {
			empty(t, s, prefix)
			pool.put(prefix)
		}
	})
	proxy := testserver.NewProxy(t, s.Addr)
	return drivertest.World{
		Open: func(ctx context.Context) (driver.Driver, error) {
			return open(ctx, strings.Replace(s.URL(), s.Addr, proxy.Addr, 1)+"?table_prefix="+prefix)
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
		LockQueue: func(queue string) (unlock func()) {
			tx := transaction(t, s, "SELECT name FROM "+prefix+"queues WHERE name = ? FOR UPDATE", queue)
			return func() { _ = tx.Rollback() }
		},
		LoseMessages: func() (resume func()) { return loseNews(t, s, prefix) },
		NoRights: func(ctx context.Context) (driver.Driver, error) {
			s.Do("CREATE USER IF NOT EXISTS reader@'%' IDENTIFIED BY 'pw'; GRANT SELECT ON locks.* TO reader@'%'")
			return open(ctx, s.URLOf("reader", "pw")+"?table_prefix="+prefix)
		},
		Damages:     func(name string) []drivertest.Damage { return damages(t, s, prefix, name) },
		Unreachable: drivertest.NobodyAt("mysql://127.0.0.1:1/locks"),
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
	all := errtest.Must(mysqllock.Schema(prefix))(t)
	park := ""
	for _, statement := range all {
		if strings.Contains(statement, "PROCEDURE "+prefix+"v5_park(") {
			park = statement
		}
	}
	if park == "" {
		t.Fatal("which procedure reads the news?")
	}
	replace := func(sql string) {
		s.Do("DROP PROCEDURE " + prefix + "v5_park;\nDELIMITER //\n" + strings.ReplaceAll(sql, "CREATE PROCEDURE", "CREATE DEFINER=`app`@`%` PROCEDURE") + "//\n")
	}
	replace(strings.Replace(park, "SELECT COUNT(*)", "DELETE FROM "+prefix+"news WHERE channel = p_channel; SELECT COUNT(*)", 1))
	return func() { replace(park) }
}

// damages are what can be written into each column of the rows of a name.
func damages(t testing.TB, s *mysqltest.Server, prefix, name string) (all []drivertest.Damage) {
	db := errtest.Must(sql.Open("mysql", mysqltest.User+":"+mysqltest.Password+"@tcp("+s.Addr+")/locks"))(t)
	t.Cleanup(func() { db.Close() })
	where := map[string]string{
		"queues": "name = '" + name + "'", "tickets": "queue = (SELECT no FROM " + prefix + "queues WHERE name = '" + name + "')", "cells": "name = '" + name + "'",
	}
	for table, of := range where {
		for _, line := range strings.Split(s.Do("SELECT CONCAT(column_name, ' ', data_type) FROM information_schema.columns WHERE table_schema = 'locks' AND table_name = '"+prefix+table+"' ORDER BY 1"), "\n") {
			column, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
			values := []string{"-1", "9223372036854775807", "NULL"}
			if strings.Contains(kind, "bin") || strings.Contains(kind, "blob") || strings.Contains(kind, "char") {
				values = []string{"''", "'../../x'", "REPEAT('x', 60000)"}
			}
			if column == "name" || column == "queue" || column == "no" {
				continue // then they are records of another one
			}
			for _, v := range values {
				all = append(all, drivertest.Damage{What: fmt.Sprintf("%s.%s = %.20s", table, column, v), Do: func() error {
					_, err := db.Exec("UPDATE " + prefix + table + " SET `" + column + "` = " + v + " WHERE " + of)
					return err
				}})
			}
		}
	}
	slices.SortFunc(all, func(a, b drivertest.Damage) int { return strings.Compare(a.What, b.What) })
	return all
}

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	var pool prefixes
	primitives.Run(t, primitives.Backend{
		World: func(t testing.TB) drivertest.World { return world(t, s, &pool) },
		TTL:   time.Second,
	})
}
