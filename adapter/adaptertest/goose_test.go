package adaptertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/gooselock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// migrating is what one instance has: a pool of one connection to the database of all, and a provider with one
// migration.
func migrating(t *testing.T, path string, l *gooselock.Locker, migration func(context.Context) error) *goose.Provider {
	t.Helper()
	db := errtest.Must(sql.Open("sqlite", path))(t)
	t.Cleanup(func() { db.Close() })
	return errtest.Must(newProvider(db, l, migration))(t)
}

// up migrates in the background, so that the test can bound it: goose would wait for ever for a second connection.
func up(ctx context.Context, p *goose.Provider) <-chan error {
	done := make(chan error, 1)
	go func() { _, err := p.Up(ctx); done <- err }()
	return done
}

func newProvider(db *sql.DB, l *gooselock.Locker, migration func(context.Context) error) (*goose.Provider, error) {
	db.SetMaxOpenConns(1)
	return goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithLocker(l), goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, _ *sql.Tx) error {
			return migration(ctx)
		}}, nil)))
}

// Promise: of processes that migrate at once, one does, and the others wait and then find nothing left to do. The pool
// of each has one connection, which goose has taken when it locks.
func TestGooseRunsEachMigrationOnceWithAPoolOfOneConnection(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		const instances = 3
		path := filepath.Join(t.TempDir(), "app.db")
		admin := open(t, url)
		var ran atomic.Int64
		applied := make(chan int, instances)
		for range instances {
			p := migrating(t, path, gooselock.New(open(t, url).Client, "migrations"), func(ctx context.Context) error {
				ran.Add(1)
				return admin.waiting(ctx, "migrations", instances-1)
			})
			go func() {
				results, err := p.Up(t.Context())
				errtest.Is(t, err, nil, "Up")
				applied <- len(results)
			}()
		}
		sum := 0
		for range instances {
			sum += errtest.Received(t, "an instance that migrates", applied)
		}
		if ran.Load() != 1 || sum != 1 {
			t.Errorf("the migration ran %d times, and is a result %d times", ran.Load(), sum)
		}
		admin.free(t, "migrations")
	})
}

func init() {
	holders["goose"] = func(url string) error {
		c, err := openHolder(url)
		if err != nil {
			return err
		}
		db, err := sql.Open("sqlite", ":memory:")
		if err != nil {
			return err
		}
		p, err := newProvider(db, gooselock.New(c, "migrations"), func(context.Context) error { holds(); return nil })
		if err != nil {
			return err
		}
		return <-up(context.Background(), p)
	}
}

// Promise: a process that waits goes on when the one that migrates has been killed.
func TestGooseGoesOnWhenTheHolderIsKilled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		kill := startHolder(t, "goose", url)
		c := open(t, url)
		p := migrating(t, ":memory:", gooselock.New(c.Client, "migrations"), func(context.Context) error { return nil })
		done := up(t.Context(), p)
		errtest.None(t, c.waiting(t.Context(), "migrations", 1))
		kill()
		errtest.None(t, errtest.Received(t, "the instance that waits", done))
	})
}

// Promise: Up says that the lock was lost while the migrations ran.
func TestGooseSaysThatTheLockWasLost(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := open(t, url)
		p := migrating(t, ":memory:", gooselock.New(c.Client, "migrations"), func(ctx context.Context) error {
			return c.loses(ctx, "migrations", true)
		})
		err := errtest.Received(t, "Up", up(t.Context(), p))
		errtest.Is(t, err, interlock.ErrLost, "Up")
		if !strings.Contains(err.Error(), "migrations") {
			t.Errorf("the lock is not named: %v", err)
		}
		err = errtest.Received(t, "Up", up(t.Context(), p))
		errtest.Is(t, err, nil, "the next Up")
	})
}

// Promise: a context that ends while a migration runs leaves no lock behind.
func TestGooseUnlocksThoughTheContextHasEnded(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c, other := open(t, url), open(t, url)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := migrating(t, ":memory:", gooselock.New(c.Client, "migrations"), func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		})
		err := errtest.Received(t, "Up", up(ctx, p))
		errtest.Is(t, err, context.Canceled, "Up")
		other.free(t, "migrations")
	})
}

// Promise: a context that ends while goose waits for the lock leaves no place in the line.
func TestGooseWaitsNoLongerThanItsContext(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c, other := open(t, url), open(t, url)
		lease := errtest.Must(other.Mutex("migrations").Acquire(t.Context()))(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := migrating(t, ":memory:", gooselock.New(c.Client, "migrations"), func(context.Context) error {
			return errors.New("it ran")
		})
		done := up(ctx, p)
		errtest.None(t, other.waiting(t.Context(), "migrations", 1))
		cancel()
		errtest.Is(t, errtest.Received(t, "Up", done), context.Canceled, "Up")
		errtest.None(t, lease.Release())
		other.free(t, "migrations")
	})
}

// Promise: two providers with one Locker do not unlock each other's locks. While work goes on whose lock is lost, the
// other one is refused.
func TestGooseProvidersWithOneLockerDoNotUnlockEachOther(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c, other := open(t, url), open(t, url)
		l := gooselock.New(c.Client, "migrations")
		second := migrating(t, ":memory:", l, func(context.Context) error { return nil })
		first := migrating(t, ":memory:", l, func(ctx context.Context) error {
			if err := c.loses(ctx, "migrations", true); err != nil {
				return err
			}
			err := errtest.Received(t, "Up", up(ctx, second))
			errtest.Is(t, err, interlock.ErrBusy, "Up of the second")
			other.free(t, "migrations")
			return nil
		})
		err := errtest.Received(t, "Up", up(t.Context(), first))
		errtest.Is(t, err, interlock.ErrLost, "Up of the first")
		err = errtest.Received(t, "Up", up(t.Context(), second))
		errtest.Is(t, err, nil, "the next Up of the second")
		errtest.Is(t, l.Unlock(t.Context(), nil), interlock.ErrReleased, "Unlock of what is not locked")
	})
}

func Example_goose() {
	ctx := context.Background()
	client, err := interlock.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	migrations := fstest.MapFS{"1_items.sql": {Data: []byte("-- +goose Up\nCREATE TABLE items (id INTEGER);")}}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations,
		goose.WithLocker(gooselock.New(client, "migrations")))
	if err != nil {
		log.Fatal(err)
	}
	results, err := provider.Up(ctx)
	fmt.Println(len(results), err)
	// Output: 1 <nil>
}
