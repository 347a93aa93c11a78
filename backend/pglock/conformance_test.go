package pglock_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

var full = os.Getenv("PGLOCK_CONFORMANCE") == "full"

var (
	openURL     = drivertest.OpenURL
	unreachable = drivertest.NobodyAt("postgres://postgres@127.0.0.1:1/postgres?sslmode=disable")
)

func TestMain(m *testing.M) {
	if !full {
		_ = flag.Set("rapid.checks", "30")
	}
	drivertest.Main(m)
}

// Promise: it keeps every rule of package driver. PGLOCK_CONFORMANCE=full repeats what
// is repeated as often as on other backends.
func TestConformance(t *testing.T) {
	s := pgtest.Start(t, pgtest.Durable()) // else it would not pass its examination
	conform(t, s, "")
}

// conform runs the suite on one server.
func conform(t *testing.T, s *pgtest.Server, options string) {
	drivertest.Run(t, drivertest.Backend{TTL: time.Second, Small: !full, World: worlds(s, options), Unsupported: map[string]string{
		"OtherUser":             "a server has the files",
		"NeighbourInTheProcess": "a server has the files",
	}})
}

// worlds makes worlds on one server, each in a schema of its own. Clients in this
// process bring a pool of their own, which reaches the server through a proxy, so
// that rules can disturb it; those in other processes use the URL.
func worlds(s *pgtest.Server, options string) func(testing.TB) drivertest.World {
	all := schemas{server: s}
	return func(t testing.TB) drivertest.World {
		schema := all.take(t)
		proxy := pgtest.NewProxy(t, s.Addr)
		via := strings.Replace(s.URL(), s.Addr, proxy.Addr, 1)
		return drivertest.World{
			Open: func(ctx context.Context) (driver.Driver, error) {
				return openPool(ctx, via, pglock.In(pglock.Schema{Name: schema}))
			},
			URL: s.URL() + "&schema=" + schema + options,
			Via: func(ctx context.Context, at func(string) string) (driver.Driver, error) {
				return openURL(ctx, strings.Replace(s.URL(), s.Addr, at(s.Addr), 1)+"&schema="+schema+options)
			},
			Hang:      func() func() { proxy.Hang(); return proxy.Resume },
			Late:      func() func() { proxy.Late(); return proxy.Resume },
			LockQueue: lockQueue(t, s, schema),
			LoseMessages: func() func() {
				proxy.DropNotifications(true)
				return func() { proxy.DropNotifications(false) }
			},
			Stranger: func(_ []*driver.Opened, last uint64) {
				all.spoil(schema)
				s.SQL(strings.ReplaceAll(reading, "SCHEMA x", "SCHEMA "+schema))
				as(t, s, "reader", forged(schema, last))
			},
			NoRights: func(ctx context.Context) (driver.Driver, error) {
				all.spoil(schema)
				s.SQL(strings.ReplaceAll(reading, "SCHEMA x", "SCHEMA "+schema))
				return openURL(ctx, s.URLOf("reader", "")+"&schema="+schema)
			},
			Damages: func(name string) []drivertest.Damage {
				all.spoil(schema)
				return damages(t, s, schema, name)
			},
			Unreachable: unreachable,
		}
	}
}

func lockQueue(t testing.TB, s *pgtest.Server, schema string) func(queue string) (unlock func()) {
	return func(queue string) func() {
		conn := errtest.Must(pgx.Connect(t.Context(), s.URL()))(t)
		errtest.Must(conn.Exec(t.Context(), "BEGIN; SELECT FROM "+schema+".queue WHERE name = '"+queue+"' FOR UPDATE"))(t)
		return func() { conn.Close(context.Background()) }
	}
}

// schemas are those of the worlds of one server. A server works for long on each that is
// made, and so does each of its processes that was busy in the others: a world gets one
// that an earlier one has left, emptied.
type schemas struct {
	server *pgtest.Server

	mu      sync.Mutex
	left    []string // longest first
	spoiled map[string]bool
}

// take is for one world, which leaves the schema at the end of its test.
func (a *schemas) take(t testing.TB) (name string) {
	t.Helper()
	a.mu.Lock()
	// A server that goes on with what a killed process has begun gets time for that.
	if len(a.left) > 2*runtime.GOMAXPROCS(0) {
		name, a.left = a.left[0], a.left[1:]
	}
	a.mu.Unlock()
	if name != "" {
		a.empty(name)
	} else {
		name = "w" + strings.ToLower(rand.Text())
	}
	t.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !t.Failed() && !a.spoiled[name] {
			a.left = append(a.left, name)
		}
	})
	return name
}

// spoil is for a schema in which more was done than a client does.
func (a *schemas) spoil(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spoiled == nil {
		a.spoiled = map[string]bool{}
	}
	a.spoiled[name] = true
}

// empty removes all rows but those that are there from the start, unless the world has
// opened nothing.
func (a *schemas) empty(name string) {
	a.server.Helper()
	var sql strings.Builder
	for _, table := range []string{"session", "queue", "ticket", "refused", "watch", "fixed", "floor", "cell", "swap"} {
		fmt.Fprintf(&sql, "DELETE FROM %s.%s; ", name, table)
	}
	a.server.SQL(fmt.Sprintf("DO $$ BEGIN IF to_regclass('%s.swap') IS NOT NULL THEN %s END IF; END $$", name, &sql))
}

// ownPool is a driver that closes the pool that its program has made.
type ownPool struct {
	driver.Driver
	pool *pgxpool.Pool
}

func (d ownPool) Close() error {
	err := d.Driver.Close()
	d.pool.Close()
	return err
}

func openPool(ctx context.Context, url string, opts ...pglock.Option) (driver.Driver, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	d, err := pglock.New(ctx, pool, opts...)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return ownPool{d, pool}, nil
}

// reading lets somebody read the tables of a schema.
const reading = "DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN END $$; GRANT USAGE ON SCHEMA x TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA x TO reader"

// damages are what can be written into each column of the rows of a name.
func damages(t testing.TB, s *pgtest.Server, schema, name string) (all []drivertest.Damage) {
	values := map[string][]string{
		"bigint": {"-1", "9223372036854775807", "NULL"}, "integer": {"-1", "2147483647"}, "boolean": {"NULL", "true"}, "uuid": {"NULL", "'00000000-0000-0000-0000-000000000000'"},
		"text": {"''", "'../../x'", "repeat('x', 1000000)"}, "bytea": {"NULL", "decode(repeat('ff', 1000000), 'hex')"},
		"value": {"convert_to(repeat('x', 100000000), 'UTF8')"},
	}
	conn := errtest.Must(pgx.Connect(t.Context(), s.URL()))(t)
	t.Cleanup(func() { conn.Close(context.Background()) })
	columns := s.SQL("SELECT table_name || ' ' || column_name || ' ' || replace(data_type, ' ', '') FROM information_schema.columns WHERE table_schema = '" + schema +
		"' AND (table_name, column_name) NOT IN (('queue', 'name'), ('ticket', 'queue'), ('cell', 'name')) AND table_name IN ('queue', 'ticket', 'cell') ORDER BY 1")
	for _, line := range strings.Split(columns, "\n") {
		c := strings.Fields(line)
		key := map[string]string{"queue": "name", "ticket": "queue", "cell": "name"}[c[0]]
		for _, v := range append(values[c[2]], values[c[1]]...) {
			all = append(all, drivertest.Damage{What: fmt.Sprintf("%s.%s = %.20s", c[0], c[1], v), Do: func() error {
				_, err := conn.Exec(t.Context(), fmt.Sprintf(`UPDATE %s.%s SET "%s" = %s WHERE %s = '%s'`, schema, c[0], c[1], v, key, name))
				return err
			}})
		}
	}
	return all
}

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable())
	primitives.Run(t, primitives.Backend{World: worlds(s, ""), TTL: time.Second})
}
