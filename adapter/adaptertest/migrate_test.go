package adaptertest

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// migrateOnce is what docs/adapters.md shows.
func migrateOnce(ctx context.Context, c *interlock.Client, m *migrate.Migrate) error {
	return c.Mutex("migrations", interlock.Wait(10*time.Minute)).Do(ctx, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { close(m.GracefulStop) })()
		if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		return context.Cause(ctx) // Up has returned nil when it was stopped
	})
}

// migrator is an instance of migrate with two migrations.
type migrator struct {
	*migrate.Migrate
	read chan struct{} // closed when the migrations have been read: one goroutine looks then whether it is to stop
}

type migrations struct {
	source.Driver
	read chan struct{}
}

func (m migrations) Next(version uint) (uint, error) {
	next, err := m.Driver.Next(version)
	if err != nil {
		close(m.read)
	}
	return next, err
}

// migrated is a database that calls run before each migration, and counts who has, or wants, its own lock.
type migrated struct {
	database.Driver
	run  func() error
	want *atomic.Int64
	most *atomic.Int64
}

func (m migrated) Run(migration io.Reader) error {
	return errors.Join(m.run(), m.Driver.Run(migration))
}

func (m migrated) Lock() error {
	m.most.Store(max(m.most.Load(), m.want.Add(1)))
	return m.Driver.Lock()
}

func (m migrated) Unlock() error {
	m.want.Add(-1)
	return m.Driver.Unlock()
}

func newMigrator(path string, run func() error, want, most *atomic.Int64) (m migrator, err error) {
	files, err := iofs.New(fstest.MapFS{
		"1_items.up.sql":  {Data: []byte("CREATE TABLE items (id INTEGER)")},
		"2_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER)")},
	}, ".")
	if err != nil {
		return m, err
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return m, err
	}
	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		return m, err
	}
	m.read = make(chan struct{})
	m.Migrate, err = migrate.NewWithInstance("iofs", migrations{files, m.read}, "sqlite", migrated{driver, run, want, most})
	return m, err
}

func openMigrator(t *testing.T, path string, run func() error) migrator {
	t.Helper()
	m := errtest.Must(newMigrator(path, run, new(atomic.Int64), new(atomic.Int64)))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// Promise: of processes that migrate at once, one does, and the others then find nothing left to do. None asks for the
// lock of the database while another has it: it cannot give up waiting for it, and get it after all.
func TestMigrateRunsEachMigrationOnce(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		const instances = 3
		path := filepath.Join(t.TempDir(), "app.db")
		admin := open(t, url)
		var ran, want, most atomic.Int64
		done := make(chan error, instances)
		var all []migrator
		for range instances {
			m := errtest.Must(newMigrator(path, func() error {
				if ran.Add(1) > 1 {
					return nil
				}
				return admin.waiting(t.Context(), "migrations", instances-1)
			}, &want, &most))(t)
			defer m.Close()
			all = append(all, m)
		}
		for _, m := range all {
			c := open(t, url)
			go func() { done <- migrateOnce(t.Context(), c.Client, m.Migrate) }()
		}
		for range instances {
			errtest.None(t, errtest.Received(t, "an instance that migrates", done))
		}
		if ran.Load() != 2 || most.Load() != 1 {
			t.Errorf("%d migrations of 2 ran, and %d wanted the lock of the database at once", ran.Load(), most.Load())
		}
		admin.free(t, "migrations")
	})
}

func init() {
	holders["migrate"] = func(url string) error {
		c, err := openHolder(url)
		if err != nil {
			return err
		}
		m, err := newMigrator(":memory:", func() error { holds(); return nil }, new(atomic.Int64), new(atomic.Int64))
		if err != nil {
			return err
		}
		return migrateOnce(context.Background(), c, m.Migrate)
	}
}

// Promise: a process that waits goes on when the one that migrates has been killed.
func TestMigrateGoesOnWhenTheHolderIsKilled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		kill := startHolder(t, "migrate", url)
		c := open(t, url)
		m := openMigrator(t, ":memory:", func() error { return nil })
		done := make(chan error, 1)
		go func() { done <- migrateOnce(t.Context(), c.Client, m.Migrate) }()
		errtest.None(t, c.waiting(t.Context(), "migrations", 1))
		kill()
		errtest.None(t, errtest.Received(t, "the instance that waits", done))
	})
}

// Promise: when the lock is lost, or the context ends, the migration that runs is the last one, and the error says why.
func TestMigrateStopsAfterTheMigrationThatRuns(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		for _, why := range []error{interlock.ErrLost, context.Canceled} {
			c := open(t, url)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var ran atomic.Int64
			var m migrator
			m = openMigrator(t, ":memory:", func() error {
				ran.Add(1)
				errtest.Received(t, "the migrations", m.read)
				if why == interlock.ErrLost {
					if err := c.loses(t.Context(), "migrations", true); err != nil {
						return err
					}
				} else {
					cancel()
				}
				errtest.Received(t, "the stop", m.GracefulStop)
				return nil
			})
			errtest.Is(t, migrateOnce(ctx, c.Client, m.Migrate), why, "migrateOnce")
			if ran.Load() != 1 {
				t.Errorf("%d migrations ran: %v", ran.Load(), why)
			}
		}
	})
}
