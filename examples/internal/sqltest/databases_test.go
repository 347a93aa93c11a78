package sqltest

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/once"
	"github.com/interlock-go/interlock/rowlock"
)

// database is a kind of database, and its way to say what the tests need.
type database struct {
	name    string
	rows    rowlock.Dialect
	fence   fence.Dialect
	once    once.Dialect
	numbers bool   // placeholders are $1
	random  string // the default of a version that FirstVersion proposes
	key     string // the column of package once
	now     string // the time in seconds
	hurry   string // a short wait for locks

	// bounded is a short wait that the server itself bounds.
	bounded time.Duration

	create func(t *testing.T) *instance
}

// instance is a database of one test.
type instance struct {
	*database
	driver, dsn string

	// waiting is how many wait for a lock; nil where that cannot be seen.
	waiting func() string
}

// open opens it with a pool of its own, as in another process.
func (d *instance) open(t *testing.T) *sql.DB {
	t.Helper()
	return openWith(t, d.driver, d.dsn)
}

// awaitWaiter returns when somebody waits for a lock.
func (d *instance) awaitWaiter(t *testing.T) {
	t.Helper()
	d.await(t, func(waiting string) bool { return waiting != "0" })
}

// awaitNoWaiter returns when nobody does any more.
func (d *instance) awaitNoWaiter(t *testing.T) {
	t.Helper()
	d.await(t, func(waiting string) bool { return waiting == "0" })
}

// freed makes sure that a call waits until end lets it go on, and returns what it then says.
func (d *instance) freed(t *testing.T, what string, call func() error, end func()) error {
	t.Helper()
	var ended atomic.Bool
	said := make(chan error, 1)
	go func() {
		err := call()
		if err == nil && !ended.Load() {
			err = errors.New("it did not wait")
		}
		said <- err
	}()
	d.awaitWaiter(t)
	ended.Store(true)
	end()
	return errtest.Received(t, what, said)
}

func (d *instance) await(t *testing.T, done func(waiting string) bool) {
	t.Helper()
	if d.waiting == nil {
		return
	}
	noError(t, testserver.Until(func() (bool, error) { return done(strings.TrimSpace(d.waiting())), nil }))
}

// servers have row locks; databases are all, in every mode that makes a
// difference to writes.
var (
	servers   = []*database{postgres, mariadb}
	databases = []*database{sqlite, postgres, mariadb, mariadbFoundRows}

	// pooled is for what a pooler between could spoil.
	pooled = []*database{postgres, pgbouncer, mariadb}
)

var sqlite = &database{
	name: "SQLite", rows: rowlock.SQLite, fence: fence.SQLite, once: once.SQLite, random: "(1 + (random() & 4503599627370495))",
	key: "`key`", now: "SELECT unixepoch()", hurry: "PRAGMA busy_timeout = 50",
	create: func(t *testing.T) *instance {
		// The first pragma comes first: to set the journal mode may have to wait.
		file := strings.Replace(newFile(t, "WAL"), "?", "?_pragma=busy_timeout(60000)&", 1)
		return &instance{driver: "sqlite", dsn: file}
	},
}

var postgres = newPostgres("PostgreSQL", func(_ *testing.T, s *pgtest.Server) string { return s.URL() }, "")

// pgbouncer gives each transaction another connection to the server, and keeps no
// prepared statements.
var pgbouncer = newPostgres("PostgreSQL through PgBouncer", func(t *testing.T, s *pgtest.Server) string {
	return pgtest.StartPooler(t, s).URL()
}, "default_query_exec_mode=exec")

func newPostgres(name string, address func(*testing.T, *pgtest.Server) string, option string) *database {
	return &database{
		name: name, rows: rowlock.PostgreSQL, fence: fence.PostgreSQL, once: once.PostgreSQL, numbers: true, random: "(1 + floor(random() * 4503599627370496))",
		key: `"key"`, now: "SELECT floor(extract(epoch FROM now()))::bigint", hurry: "SET lock_timeout = '50ms'",
		bounded: 20 * time.Millisecond,
		create: func(t *testing.T) *instance {
			s := postgresServer(t)
			name := postgresDatabase(t, s)
			url := inDatabase(t, address(t, s), name, option)
			return &instance{
				driver: "pgx", dsn: url,
				waiting: asker(t, "pgx", s.URL(), "SELECT 'waiting', count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
			}
		},
	}
}

func inDatabase(t *testing.T, server, name, option string) string {
	t.Helper()
	u := errtest.Must(url.Parse(server))(t)
	u.Path = "/" + name
	if option != "" {
		u.RawQuery += "&" + option
	}
	return u.String()
}

var mariadb = newMariaDB("MariaDB", "")

// mariadbFoundRows counts the rows that a statement finds, not those that it
// changes.
var mariadbFoundRows = newMariaDB("MariaDB, counting found rows", "?clientFoundRows=true")

func newMariaDB(name, options string) *database {
	return &database{
		name: name, rows: rowlock.MySQL, fence: fence.MySQL, once: once.MySQL, random: "(1 + floor(rand() * 4503599627370496))",
		key: "`key`", now: "SELECT unix_timestamp()", hurry: "SET innodb_lock_wait_timeout = 1",
		bounded: time.Second,
		create: func(t *testing.T) *instance {
			s := mariaServer(t)
			name := newName()
			s.Do("CREATE DATABASE " + name + "; GRANT ALL ON " + name + ".* TO " + mysqltest.User)
			dsn := strings.Replace(s.DSN(), "/"+mysqltest.Database, "/"+name, 1) + options
			return &instance{
				driver: "mysql", dsn: dsn,
				waiting: asker(t, "mysql", s.DSN(), "SHOW GLOBAL STATUS LIKE 'Innodb\\_row\\_lock\\_current\\_waits'"),
			}
		},
	}
}

// postgresDatabase is an empty database. The next test gets it emptied: to make one
// takes long.
func postgresDatabase(t *testing.T, s *pgtest.Server) string {
	t.Helper()
	started.Lock()
	defer started.Unlock()
	name := ""
	if n := len(started.spare); n > 0 {
		name, started.spare = started.spare[n-1], started.spare[:n-1]
	} else {
		name = newName()
		s.SQL("CREATE DATABASE " + name)
	}
	t.Cleanup(func() {
		if _, err := s.Exec(name, "SET lock_timeout = '1min'; DROP SCHEMA public CASCADE; CREATE SCHEMA public"); err != nil {
			t.Error("something is left in the database:", err)
			return
		}
		started.Lock()
		defer started.Unlock()
		started.spare = append(started.spare, name)
	})
	return name
}

// asker asks for a name and a value, over a connection of its own, and returns the
// value.
func asker(t *testing.T, driver, dsn, query string) func() string {
	var db *sql.DB
	return func() (value string) {
		t.Helper()
		if db == nil {
			db = openWith(t, driver, dsn)
		}
		var name string
		noError(t, db.QueryRow(query).Scan(&name, &value))
		return value
	}
}

var names atomic.Int64

func newName() string { return fmt.Sprintf("test%d", names.Add(1)) }

func openWith(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db := errtest.Must(sql.Open(driver, dsn))(t)
	t.Cleanup(func() { isErr(t, db.Close(), nil) })
	return db
}

// each runs a test on each database, which has run the statements.
func each(t *testing.T, kinds []*database, test func(t *testing.T, d *instance), statements ...string) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			defer watch(t)()
			d := kind.create(t)
			d.database = kind
			db := d.open(t)
			for _, s := range statements {
				must(t, db, d.sql(s))
			}
			test(t, d)
		})
	}
}

// sql writes a statement in the way of the database: ? for an argument, RANDOM
// for the default of a version.
func (d *database) sql(s string) string {
	s = strings.ReplaceAll(s, "RANDOM", d.random)
	for n := 1; d.numbers && strings.Contains(s, "?"); n++ {
		s = strings.Replace(s, "?", fmt.Sprintf("$%d", n), 1)
	}
	return s
}

func newVersioned(d rowlock.Dialect, table, key, version string) (*rowlock.Versioned, error) {
	t, err := rowlock.NewTable(d, table, key)
	if err != nil {
		return nil, err
	}
	return rowlock.NewVersioned(t, version)
}

// The servers are started by the first test that wants them, and serve all.
var (
	started struct {
		sync.Mutex
		spare []string // empty databases of PostgreSQL
		ends  []func() // of the servers
	}
	runPostgres = sync.OnceValues(func() (*pgtest.Server, error) {
		return run((*pgtest.Server).Stop, func(dir string) (*pgtest.Server, error) {
			return pgtest.Run(dir, pgtest.Config("deadlock_timeout", "20ms"), pgtest.Config("max_connections", "200"))
		})
	})
	runMariaDB = sync.OnceValues(func() (*mysqltest.Server, error) {
		return run((*mysqltest.Server).Stop, func(dir string) (*mysqltest.Server, error) { return mysqltest.Run(dir) })
	})
)

func postgresServer(t *testing.T) *pgtest.Server { return errtest.Must(runPostgres())(t) }

func mariaServer(t *testing.T) *mysqltest.Server { return errtest.Must(runMariaDB())(t) }

// run starts a server in a folder that goes with it.
func run[S any](stop func(S), start func(dir string) (S, error)) (s S, err error) {
	dir, err := os.MkdirTemp("", "sqltest-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // a server that may not run as root looks into it
	}
	if err == nil {
		s, err = start(dir)
	}
	started.Lock()
	defer started.Unlock()
	started.ends = append(started.ends, func() {
		if err == nil {
			stop(s)
		}
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	return s, err
}

func stopServers() {
	for _, end := range started.ends {
		end()
	}
}
