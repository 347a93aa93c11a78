package pgxrow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/rowlock"
	"github.com/interlock-go/interlock/rowlock/pgxrow"
)

// server serves all tests of the package.
var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pgxrow-")
	if err == nil {
		defer os.RemoveAll(dir)
		if err = os.Chmod(dir, 0o755); err == nil { // a server that may not run as root looks into it
			server, err = pgtest.Run(dir, pgtest.Config("deadlock_timeout", "20ms"))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop()
	return m.Run()
}

// newPool opens the database and fills it anew.
func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool := open(t)
	must(t, pool, "DROP TABLE IF EXISTS items")
	must(t, pool, "CREATE TABLE items (id integer PRIMARY KEY, stock integer NOT NULL, version bigint NOT NULL DEFAULT (1 + floor(random() * 4503599627370496)))")
	must(t, pool, "INSERT INTO items (id, stock) VALUES (1, 100), (2, 100), (3, 100)")
	return pool
}

func open(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool := errtest.Must(pgxpool.New(context.Background(), server.URL()))(t)
	t.Cleanup(pool.Close)
	return pool
}

func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx := errtest.Must(pool.Begin(t.Context()))(t)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	errtest.None(t, tx.Commit(t.Context()))
}

func must(t testing.TB, e pgxrow.Execer, query string, args ...any) {
	t.Helper()
	if _, err := e.Exec(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func number(t *testing.T, q pgxrow.Queryer, query string) (n int64) {
	t.Helper()
	if err := q.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// awaitWaiters returns when so many wait for a lock.
func awaitWaiters(t *testing.T, n string) {
	t.Helper()
	err := testserver.Until(func() (bool, error) {
		return strings.TrimSpace(server.SQL("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")) == n, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func newItems(t *testing.T) *pgxrow.Versioned {
	t.Helper()
	table := errtest.Must(pgxrow.NewTable("items", "id"))(t)
	items := errtest.Must(pgxrow.NewVersioned(table, "version"))(t)
	return items
}

type locker func(ctx context.Context, tx pgx.Tx, opts ...rowlock.Option) error

func eachLocker(t *testing.T, test func(t *testing.T, pool *pgxpool.Pool, lock locker)) {
	names := errtest.Must(pgxrow.NewNames(rowlock.DefaultNames))(t)
	items := newItems(t)
	for what, lock := range map[string]locker{
		"row": func(ctx context.Context, tx pgx.Tx, opts ...rowlock.Option) error {
			return items.Lock(ctx, tx, 1, opts...)
		},
		"name": func(ctx context.Context, tx pgx.Tx, opts ...rowlock.Option) error {
			return names.Lock(ctx, tx, "stock of the year", opts...)
		},
	} {
		t.Run(what, func(t *testing.T) { test(t, newPool(t), lock) })
	}
}

// Promise: a lock keeps others out until the transaction ends. Who does not wait, or
// not for ever, gets ErrBusy and goes on in its transaction, whose settings are as
// before.
func TestALockKeepsOthersOutUntilItsTransactionEnds(t *testing.T) {
	for _, end := range []func(pgx.Tx, context.Context) error{pgx.Tx.Commit, pgx.Tx.Rollback} {
		eachLocker(t, func(t *testing.T, pool *pgxpool.Pool, lock locker) {
			ctx, a, b := t.Context(), begin(t, pool), begin(t, pool)
			errtest.None(t, lock(ctx, a))
			must(t, b, "SET LOCAL lock_timeout = 54321")
			must(t, b, "UPDATE items SET stock = 7 WHERE id = 2")
			for _, wait := range []time.Duration{-1, 0, 1, 30 * time.Millisecond} {
				began := time.Now()
				if err := lock(ctx, b, rowlock.Wait(wait)); !errors.Is(err, rowlock.ErrBusy) {
					t.Fatalf("Wait(%v): got %v, want ErrBusy", wait, err)
				}
				if took := time.Since(began); took < wait {
					t.Errorf("Wait(%v): failed after %v", wait, took)
				}
			}
			got := make(chan error, 1)
			go func() { got <- lock(ctx, b, rowlock.Wait(time.Minute)) }()
			awaitWaiters(t, "1")
			errtest.None(t, end(a, ctx))
			if err := <-got; err != nil {
				t.Error("after the end:", err)
			}
			if got := number(t, b, "SELECT replace(current_setting('lock_timeout'), 'ms', '')::int"); got != 54321 {
				t.Errorf("lock_timeout is %d, want 54321 as before", got)
			}
			commit(t, b)
			if got := number(t, pool, "SELECT stock FROM items WHERE id = 2"); got != 7 {
				t.Errorf("what the transaction had written before: got %d, want 7", got)
			}
		})
	}
}

// Promise: a row that does not exist is pgx.ErrNoRows, and one that came back while
// a call waited is found; the transaction goes on.
func TestTheRowThatIsThereNowIsLocked(t *testing.T) {
	pool, items := newPool(t), newItems(t)
	ctx, a, b := t.Context(), begin(t, pool), begin(t, pool)
	for _, opts := range [][]rowlock.Option{nil, {rowlock.Wait(0)}, {rowlock.Wait(time.Minute)}} {
		errtest.Is(t, items.Lock(ctx, b, 9, opts...), pgx.ErrNoRows, "no such row")
	}
	must(t, a, "DELETE FROM items WHERE id = 1")
	got := make(chan error, 1)
	var stock int
	go func() {
		got <- items.LockAndRead(ctx, b, 1, rowlock.Columns{"stock": &stock}, rowlock.Wait(time.Minute))
	}()
	awaitWaiters(t, "1")
	must(t, a, "INSERT INTO items (id, stock) VALUES (1, 55)")
	commit(t, a)
	if err := <-got; err != nil || stock != 55 {
		t.Errorf("got %d, %v; want 55", stock, err)
	}
	commit(t, b)
}

// Promise: LockFree takes what is free, in the order of the keys, and no more than
// asked for.
func TestLockFreeTakesWhatIsFree(t *testing.T) {
	pool, items := newPool(t), newItems(t)
	ctx, a, b := t.Context(), begin(t, pool), begin(t, pool)
	errtest.None(t, items.Lock(ctx, a, 2))
	keys := []any{9, 2, 3, rowlock.Key{1}}
	if got, err := items.LockFree(ctx, b, 1, keys); err != nil || !slices.Equal(got, []any{3}) {
		t.Errorf("one: got %v, %v; want 3", got, err)
	}
	if got, err := items.LockFree(ctx, b, 9, keys); err != nil || len(got) != 2 {
		t.Errorf("all: got %v, %v; want 3 and 1", got, err)
	}
	if _, err := items.LockFree(ctx, b, 0, keys); err == nil {
		t.Error("none of them: want an error")
	}
}

// Promise: a cancelled wait leaves nobody in the line, a pool that goes on, and nothing
// of the transaction.
func TestACancelledWaitLeavesNothingBehind(t *testing.T) {
	for _, opts := range [][]rowlock.Option{nil, {rowlock.Wait(time.Minute)}} {
		eachLocker(t, func(t *testing.T, pool *pgxpool.Pool, lock locker) {
			a, b := begin(t, pool), begin(t, pool)
			errtest.None(t, lock(t.Context(), a))
			must(t, b, "UPDATE items SET stock = 7 WHERE id = 2")
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error, 1)
			go func() { got <- lock(ctx, b, opts...) }()
			awaitWaiters(t, "1")
			cancel()
			if err := <-got; !errors.Is(err, context.Canceled) || rowlock.Retryable(err) {
				t.Errorf("got %v, want the context's error", err)
			}
			_ = b.Rollback(t.Context()) // its connection may be gone
			awaitWaiters(t, "0")        // while the lock is still held
			commit(t, a)
			c := begin(t, pool)
			if err := lock(t.Context(), c); err != nil {
				t.Error("the next transaction:", err)
			}
			if got := number(t, c, "SELECT stock FROM items WHERE id = 2"); got != 100 {
				t.Errorf("the lost transaction has left a stock of %d, want 100", got)
			}
		})
	}
}

// Promise: a lock of a transaction inside another one stays until the outermost ends,
// and is given back if the inner one is rolled back.
func TestLocksOfASavepoint(t *testing.T) {
	pool, items := newPool(t), newItems(t)
	ctx, outer := t.Context(), begin(t, pool)
	for i, rollback := range []bool{true, false} {
		inner := errtest.Must(outer.Begin(ctx))(t)
		errtest.None(t, items.Lock(ctx, inner, i+1, rowlock.Wait(time.Minute)))
		if rollback {
			errtest.None(t, inner.Rollback(ctx))
		} else {
			commit(t, inner)
		}
	}
	other := begin(t, pool)
	if err := items.Lock(ctx, other, 1, rowlock.Wait(0)); err != nil {
		t.Error("rolled back:", err)
	}
	errtest.Is(t, items.Lock(ctx, other, 2, rowlock.Wait(0)), rowlock.ErrBusy, "committed inside")
}

// Promise: the victim of a deadlock does its work again.
func TestTheVictimOfADeadlockBeginsAgain(t *testing.T) {
	pool, items := newPool(t), newItems(t)
	var calls atomic.Int64
	var both, all sync.WaitGroup
	both.Add(2)
	for _, keys := range [][]int{{1, 2}, {2, 1}} {
		var meet sync.Once
		all.Go(func() {
			err := items.Do(t.Context(), pool, 10, func(ctx context.Context, tx pgx.Tx) error {
				calls.Add(1)
				for i, key := range keys {
					if err := items.Lock(ctx, tx, key); err != nil {
						return err
					}
					if _, err := tx.Exec(ctx, "UPDATE items SET stock = stock - 1 WHERE id = $1", key); err != nil {
						return err
					}
					if i == 0 {
						meet.Do(func() { both.Done(); both.Wait() })
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := calls.Load(); n < 3 {
		t.Errorf("%d calls, so there was no deadlock and this shows nothing", n)
	}
	if sum := number(t, pool, "SELECT sum(stock) FROM items"); sum != 296 {
		t.Errorf("the stocks are %d, want each transaction's two pieces taken once: 296", sum)
	}
}

// Promise: a row is written back only if its version stands, and a row that was deleted
// and inserted again is another one.
func TestWriteOnlyIfTheVersionStands(t *testing.T) {
	ctx, pool, items := t.Context(), newPool(t), newItems(t)
	var stock int
	version, err := items.Read(ctx, pool, 1, rowlock.Columns{"stock": &stock})
	if err != nil || stock != 100 {
		t.Fatalf("got %d, %v; want 100", stock, err)
	}
	errtest.None(t, items.Write(ctx, pool, 1, version, rowlock.Columns{"stock": 99}))
	conflict := func(when string, err error) {
		t.Helper()
		if !errors.Is(err, rowlock.ErrConflict) {
			t.Errorf("%s: got %v, want ErrConflict", when, err)
		}
	}
	conflict("written since", items.Write(ctx, pool, 1, version, rowlock.Columns{"stock": 98}))
	conflict("written since, delete", items.Delete(ctx, pool, 1, version))
	must(t, pool, "DELETE FROM items WHERE id = 1")
	conflict("deleted since", items.Write(ctx, pool, 1, version+1, nil))
	must(t, pool, "INSERT INTO items (id, stock, version) VALUES (1, 99, $1)", rowlock.FirstVersion())
	conflict("inserted again", items.Write(ctx, pool, 1, version+1, nil))
	if _, err := items.Read(ctx, pool, 9, nil); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("no such row: got %v, want pgx.ErrNoRows", err)
	}
}
