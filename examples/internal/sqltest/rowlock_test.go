package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/rowlock"
)

// The items that most tests lock.
var itemStatements = []string{
	"CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, version BIGINT NOT NULL DEFAULT RANDOM)",
	"INSERT INTO items (id, stock) VALUES (1, 100), (2, 100), (3, 100)",
}

func eachWithItems(t *testing.T, kinds []*database, test func(t *testing.T, d *instance, items *rowlock.Versioned)) {
	each(t, kinds, func(t *testing.T, d *instance) {
		items := errtest.Must(newVersioned(d.rows, "items", "id", "version"))(t)
		test(t, d, items)
	}, itemStatements...)
}

// locker locks one thing, the same each time.
type locker func(ctx context.Context, tx *sql.Tx, opts ...rowlock.Option) error

// eachLocker runs a test with a row and with a name.
func eachLocker(t *testing.T, kinds []*database, test func(t *testing.T, d *instance, lock locker)) {
	t.Run("row", func(t *testing.T) {
		eachWithItems(t, kinds, func(t *testing.T, d *instance, items *rowlock.Versioned) {
			test(t, d, func(ctx context.Context, tx *sql.Tx, opts ...rowlock.Option) error {
				return items.Lock(ctx, tx, 1, opts...)
			})
		})
	})
	t.Run("name", func(t *testing.T) {
		eachWithItems(t, kinds, func(t *testing.T, d *instance, _ *rowlock.Versioned) {
			names := newNames(t, d)
			test(t, d, func(ctx context.Context, tx *sql.Tx, opts ...rowlock.Option) error {
				return names.Lock(ctx, tx, "stock of the year", opts...)
			})
		})
	})
}

func newNames(t *testing.T, d *instance) *rowlock.Names {
	t.Helper()
	names := errtest.Must(rowlock.NewNames(d.rows, rowlock.DefaultNames))(t)
	noError(t, names.Create(t.Context(), d.open(t)))
	return names
}

// Promise: a lock keeps others out until the transaction ends, by commit or by
// rollback. Who does not wait, or not for ever, gets ErrBusy and goes on in its
// transaction.
func TestALockKeepsOthersOutUntilItsTransactionEnds(t *testing.T) {
	for i, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
		eachLocker(t, pooled, func(t *testing.T, d *instance, lock locker) {
			ctx := t.Context()
			a, b := begin(t, d.open(t)), begin(t, d.open(t))
			noError(t, lock(ctx, a))
			isErr(t, lock(ctx, a, rowlock.Wait(0)), nil, "once more in the same transaction")
			must(t, b, "UPDATE items SET stock = 7 WHERE id = 2")
			waits := []time.Duration{-1, 0, 1, 30 * time.Millisecond, d.bounded + 10*time.Millisecond}
			for _, wait := range waits[:5-i] { // the long one once
				began := time.Now()
				if err := lock(ctx, b, rowlock.Wait(wait)); !errors.Is(err, rowlock.ErrBusy) {
					t.Fatalf("Wait(%v): got %v, want ErrBusy", wait, err)
				}
				if took := time.Since(began); took < wait {
					t.Errorf("Wait(%v): failed after %v", wait, took)
				}
			}
			if got := number(t, b, "SELECT stock FROM items WHERE id = 2"); got != 7 {
				t.Errorf("what the transaction had written before: got %d, want 7", got)
			}
			noError(t, end(a))
			isErr(t, lock(ctx, b, rowlock.Wait(0)), nil, "after the end")
			commit(t, b)
		})
	}
}

// Promise: who waits gets the lock when its transaction's end frees it.
func TestWhoWaitsGetsTheLock(t *testing.T) {
	for _, opts := range [][]rowlock.Option{nil, {rowlock.Wait(time.Minute)}, {rowlock.Shared()}} {
		eachLocker(t, servers, func(t *testing.T, d *instance, lock locker) {
			a, b := begin(t, d.open(t)), begin(t, d.open(t))
			noError(t, lock(t.Context(), a))
			noError(t, d.freed(t, "the lock, after its holder has ended", func() error { return lock(t.Context(), b, opts...) }, func() { commit(t, a) }))
			commit(t, b)
		})
	}
}

// Promise: shared locks share, and keep the others out.
func TestSharedLocksShare(t *testing.T) {
	eachLocker(t, servers, func(t *testing.T, d *instance, lock locker) {
		ctx := t.Context()
		a, b, c := begin(t, d.open(t)), begin(t, d.open(t)), begin(t, d.open(t))
		for _, tx := range []*sql.Tx{a, b} {
			for _, opts := range [][]rowlock.Option{{}, {rowlock.Wait(0)}, {rowlock.Wait(time.Minute)}} {
				noError(t, lock(ctx, tx, append(opts, rowlock.Shared())...))
			}
		}
		commit(t, a)
		for _, wait := range []time.Duration{0, d.bounded} {
			isErr(t, lock(ctx, c, rowlock.Wait(wait)), rowlock.ErrBusy, "while it is shared")
		}
		commit(t, b)
		isErr(t, lock(ctx, c, rowlock.Wait(0)), nil, "when nobody shares it any more")
		d1 := begin(t, d.open(t))
		for _, wait := range []time.Duration{0, 30 * time.Millisecond} {
			isErr(t, lock(ctx, d1, rowlock.Shared(), rowlock.Wait(wait)), rowlock.ErrBusy, "shared, while it is not")
		}
	})
}

// Promise: what is read under the lock is the latest state, and nobody changes it.
func TestWhatIsReadUnderTheLockIsTheLatest(t *testing.T) {
	eachWithItems(t, databases, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		ctx, a, b := t.Context(), d.open(t), d.open(t)
		holder := errtest.Must(items.Begin(ctx, a))(t)
		defer holder.Rollback()
		var stock int
		if err := items.LockAndRead(ctx, holder, 1, rowlock.Columns{"stock": &stock}); err != nil || stock != 100 {
			t.Fatalf("got %d, %v; want 100", stock, err)
		}
		noError(t, d.freed(t, "what is read under the lock", func() error {
			tx, err := items.Begin(ctx, b)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			// On the servers another read comes first.
			_, err = tx.Exec("SELECT 1 FROM items")
			var locked, plain int
			if err == nil {
				err = items.LockAndRead(ctx, tx, 1, rowlock.Columns{"stock": &locked})
			}
			if err == nil {
				err = tx.QueryRowContext(ctx, "SELECT stock FROM items WHERE id = 1").Scan(&plain)
			}
			if err == nil && (locked != 99 || plain != 99) {
				err = fmt.Errorf("read %d with the lock and %d under it, want 99", locked, plain)
			}
			return err
		}, func() {
			must(t, holder, "UPDATE items SET stock = 99 WHERE id = 1")
			commit(t, holder)
		}))
	})
}

// Promise: LockAndRead reads the latest state in any transaction of MariaDB, also
// in one whose plain reads are of an earlier moment.
func TestLockAndReadIsNotBoundToTheSnapshot(t *testing.T) {
	eachWithItems(t, []*database{mariadb}, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		tx := begin(t, d.open(t))
		number(t, tx, "SELECT stock FROM items WHERE id = 1")
		must(t, d.open(t), "UPDATE items SET stock = 99 WHERE id = 1")
		if got := number(t, tx, "SELECT stock FROM items WHERE id = 1"); got != 100 {
			t.Fatalf("a plain read: got %d, want the snapshot's 100, or this shows nothing", got)
		}
		var stock int
		if err := items.LockAndRead(t.Context(), tx, 1, rowlock.Columns{"stock": &stock}); err != nil || stock != 99 {
			t.Errorf("got %d, %v; want 99", stock, err)
		}
	})
}

// Promise: a row that does not exist is sql.ErrNoRows, and the transaction goes on.
func TestARowThatDoesNotExistIsErrNoRows(t *testing.T) {
	eachWithItems(t, databases, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		tx := begin(t, d.open(t))
		for _, opts := range [][]rowlock.Option{nil, {rowlock.Wait(0)}, {rowlock.Wait(time.Minute)}, {rowlock.Shared()}} {
			if err := items.Lock(t.Context(), tx, 9, opts...); !errors.Is(err, sql.ErrNoRows) || rowlock.Retryable(err) {
				t.Errorf("got %v, want sql.ErrNoRows", err)
			}
		}
		isErr(t, items.Lock(t.Context(), tx, 1, rowlock.Wait(0)), nil)
		commit(t, tx)
	})
}

// Promise: a row that was deleted and inserted again while a call waited for it is
// found; one that was only deleted is not.
func TestALockThatWaitedFindsTheRowThatIsThereNow(t *testing.T) {
	for _, again := range []bool{true, false} {
		for _, opts := range [][]rowlock.Option{nil, {rowlock.Wait(time.Minute)}} {
			eachWithItems(t, servers, func(t *testing.T, d *instance, items *rowlock.Versioned) {
				a, b := begin(t, d.open(t)), begin(t, d.open(t))
				must(t, a, "DELETE FROM items WHERE id = 1")
				var stock int
				err := d.freed(t, "the row, after its holder has ended", func() error {
					return items.LockAndRead(t.Context(), b, 1, rowlock.Columns{"stock": &stock}, opts...)
				}, func() {
					if again {
						must(t, a, "INSERT INTO items (id, stock) VALUES (1, 55)")
					}
					commit(t, a)
				})
				if again && (err != nil || stock != 55) {
					t.Errorf("inserted again: got %d, %v; want 55", stock, err)
				}
				if !again && !errors.Is(err, sql.ErrNoRows) {
					t.Errorf("deleted: got %v, want sql.ErrNoRows", err)
				}
			})
		}
	}
}

// Promise: LockFree takes what is free, in the order of the keys, and no more than
// asked for.
func TestLockFreeTakesWhatIsFree(t *testing.T) {
	eachWithItems(t, servers, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		ctx := t.Context()
		a, b, c := begin(t, d.open(t)), begin(t, d.open(t)), begin(t, d.open(t))
		noError(t, items.Lock(ctx, a, 2))
		all := []any{9, 2, 3, 1}
		if got, err := items.LockFree(ctx, b, 1, all); err != nil || !slices.Equal(got, []any{3}) {
			t.Errorf("one of %v while 2 is locked: got %v, %v; want 3", all, got, err)
		}
		if got, err := items.LockFree(ctx, c, 2, all); err != nil || !slices.Equal(got, []any{1}) {
			t.Errorf("two of %v while 2 and 3 are locked: got %v, %v; want 1", all, got, err)
		}
		if got, err := items.LockFree(ctx, c, 2, []any{2, 3}); err != nil || len(got) != 0 {
			t.Errorf("nothing is free: got %v, %v; want none", got, err)
		}
		commit(t, a)
		commit(t, b)
		if got, err := items.LockFree(ctx, c, 3, all); err != nil || !slices.Equal(got, []any{2, 3, 1}) {
			t.Errorf("all are free: got %v, %v; want 2, 3 and its own 1", got, err)
		}
		isOther(t, errOf(items.LockFree(ctx, c, 0, all)), "none of them")
	})
}

// Promise: a key may have several columns.
func TestAKeyOfSeveralColumns(t *testing.T) {
	each(t, databases, func(t *testing.T, d *instance) {
		ctx, db := t.Context(), d.open(t)
		table := errtest.Must(rowlock.NewTable(d.rows, "shelves", "shop", "place"))(t)
		shelves := errtest.Must(rowlock.NewVersioned(table, "version"))(t)
		key := rowlock.Key{1, "b"}
		var stock int
		version, err := shelves.Read(ctx, db, key, rowlock.Columns{"stock": &stock})
		if err != nil || stock != 20 {
			t.Fatalf("got %d, %v; want 20", stock, err)
		}
		noError(t, shelves.Write(ctx, db, key, version, rowlock.Columns{"stock": 19}))
		err = shelves.Do(ctx, db, 1, func(ctx context.Context, tx *sql.Tx) error {
			if err := shelves.LockAndRead(ctx, tx, key, rowlock.Columns{"stock": &stock}); err != nil {
				return err
			}
			got, err := shelves.LockFree(ctx, tx, 1, []any{rowlock.Key{3, "b"}, rowlock.Key{2, "b"}})
			if err == nil && (len(got) != 1 || !slices.Equal(got[0].(rowlock.Key), rowlock.Key{2, "b"})) {
				err = fmt.Errorf("got %v, want 2/b", got)
			}
			return err
		})
		if err != nil || stock != 19 {
			t.Errorf("got %d, %v; want 19", stock, err)
		}
		err = shelves.Do(ctx, db, 1, func(ctx context.Context, tx *sql.Tx) error { return shelves.Lock(ctx, tx, rowlock.Key{1, "c"}) })
		isErr(t, err, sql.ErrNoRows, "no such row")
		for _, wrong := range []any{1, rowlock.Key{1}, rowlock.Key{1, "b", 2}, rowlock.Key{}} {
			isOther(t, shelves.Write(ctx, db, wrong, version+1, nil), fmt.Sprint("key ", wrong), rowlock.ErrConflict, rowlock.ErrBusy, rowlock.ErrDeadlock)
		}
		isErr(t, shelves.Delete(ctx, db, key, version), rowlock.ErrConflict, "Delete of an old version")
		isErr(t, shelves.Delete(ctx, db, key, version+1), nil)
		if n := number(t, db, "SELECT count(*) FROM shelves"); n != 2 {
			t.Errorf("%d rows are left, want 2", n)
		}
	}, "CREATE TABLE shelves (shop INTEGER, place VARCHAR(10), stock INTEGER NOT NULL, version BIGINT NOT NULL DEFAULT RANDOM, PRIMARY KEY (shop, place))",
		"INSERT INTO shelves (shop, place, stock) VALUES (1, 'a', 10), (1, 'b', 20), (2, 'b', 30)")
}

// Promise: the settings of a transaction are afterwards as before.
func TestWaitLeavesSettingsAsTheyWere(t *testing.T) {
	setting := map[bool][2]string{
		true:  {"SET LOCAL lock_timeout = 54321", "SELECT replace(current_setting('lock_timeout'), 'ms', '')"},
		false: {"SET innodb_lock_wait_timeout = 54321", "SELECT @@innodb_lock_wait_timeout"},
	}
	eachLocker(t, pooled, func(t *testing.T, d *instance, lock locker) {
		s := setting[d.numbers]
		a, b := begin(t, d.open(t)), begin(t, d.open(t))
		must(t, b, s[0])
		check := func(when string) {
			t.Helper()
			if got := number(t, b, s[1]); got != 54321 {
				t.Errorf("after %s: got %d, want 54321", when, got)
			}
		}
		noError(t, lock(t.Context(), a))
		isErr(t, lock(t.Context(), b, rowlock.Wait(d.bounded+time.Millisecond)), rowlock.ErrBusy)
		check("ErrBusy")
		isErr(t, d.freed(t, "the lock, after its holder has ended", func() error {
			return lock(t.Context(), b, rowlock.Wait(time.Minute))
		}, func() { commit(t, a) }), nil)
		check("a wait")
		isErr(t, lock(t.Context(), b, rowlock.Wait(time.Minute)), nil)
		check("no wait")
	})
}

// Promise: after a call whose context ended while it waited, its connection or
// the next one from the pool is sane, nobody waits on the server for ever, and
// nothing that the transaction had done is left.
func TestACancelledWaitLeavesNothingBehind(t *testing.T) {
	for _, opts := range [][]rowlock.Option{nil, {rowlock.Wait(time.Minute)}} {
		eachLocker(t, pooled, func(t *testing.T, d *instance, lock locker) {
			a, pool := begin(t, d.open(t)), d.open(t)
			pool.SetMaxOpenConns(1)
			noError(t, lock(t.Context(), a))
			b := begin(t, pool)
			must(t, b, "UPDATE items SET stock = 7 WHERE id = 2")
			ctx, cancel := context.WithCancel(t.Context())
			err := d.freed(t, "Lock whose context has ended", func() error { return lock(ctx, b, opts...) }, cancel)
			if !errors.Is(err, context.Canceled) || rowlock.Retryable(err) {
				t.Errorf("got %v, want the context's error", err)
			}
			_ = b.Rollback() // its connection may be gone
			commit(t, a)
			d.awaitNoWaiter(t)
			next := begin(t, pool)
			errtest.MustBe(t, lock(t.Context(), next), nil, "the next transaction")
			if got := number(t, next, "SELECT stock FROM items WHERE id = 2"); got != 100 {
				t.Errorf("the lost transaction has left a stock of %d, want 100", got)
			}
			commit(t, next)
		})
	}
}

// Promise: a deadlock ends one of those who wait for each other, and Do does its
// work again.
func TestTheVictimOfADeadlockBeginsAgain(t *testing.T) {
	eachWithItems(t, pooled, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		ctx, db := t.Context(), d.open(t)
		var calls atomic.Int64
		var both, all sync.WaitGroup
		both.Add(2)
		for _, keys := range [][]int{{1, 2}, {2, 1}} {
			var meet sync.Once
			all.Go(func() {
				err := items.Do(ctx, db, 10, func(ctx context.Context, tx *sql.Tx) error {
					calls.Add(1)
					for i, key := range keys {
						if err := items.Lock(ctx, tx, key); err != nil {
							return err
						}
						if _, err := tx.ExecContext(ctx, d.sql("UPDATE items SET stock = stock - 1 WHERE id = ?"), key); err != nil {
							return err
						}
						if i == 0 {
							meet.Do(func() { both.Done(); both.Wait() })
						}
					}
					return nil
				})
				isErr(t, err, nil)
			})
		}
		waitFor(t, "two transactions that wait for each other", &all)
		if n := calls.Load(); n < 3 {
			t.Errorf("%d calls, so there was no deadlock and this shows nothing", n)
		}
		if sum := number(t, db, "SELECT sum(stock) FROM items"); sum != 296 {
			t.Errorf("the stocks are %d, want each transaction's two pieces taken once: 296", sum)
		}
	})
}

// Promise: what a caller goes on to write after a deadlock is not committed.
func TestNothingIsWrittenAfterADeadlock(t *testing.T) {
	eachWithItems(t, servers, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		ctx, db := t.Context(), d.open(t)
		txs := []*sql.Tx{begin(t, db), begin(t, db)}
		for i, tx := range txs {
			noError(t, items.Lock(ctx, tx, i+1))
		}
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i, tx := range txs {
			both.Go(func() {
				if errs[i] = items.Lock(ctx, tx, 2-i); errs[i] != nil {
					// A caller who does not look at errors.
					_, _ = tx.Exec("UPDATE items SET stock = 0 WHERE id = 3")
					_ = tx.Commit()
				} else {
					errs[i] = tx.Rollback()
				}
			})
		}
		waitFor(t, "two transactions that wait for each other", &both)
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), rowlock.ErrDeadlock) {
			t.Fatalf("got %v and %v, want one ErrDeadlock", errs[0], errs[1])
		}
		if got := number(t, db, "SELECT stock FROM items WHERE id = 3"); got != 100 {
			t.Errorf("the stock is %d: a statement after the deadlock was committed", got)
		}
	})
}

// Promise: a write counts even if it changes nothing but the version, whatever the
// client counts; and only if the version stands.
func TestWriteOnlyIfTheVersionStands(t *testing.T) {
	eachWithItems(t, databases, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		ctx, db := t.Context(), d.open(t)
		read := func() (stock int, version int64) {
			t.Helper()
			version, err := items.Read(ctx, db, 1, rowlock.Columns{"stock": &stock})
			noError(t, err)
			return stock, version
		}
		stock, version := read()
		noError(t, items.Write(ctx, db, 1, version, rowlock.Columns{"stock": stock}))
		isErr(t, items.Write(ctx, db, 1, version, rowlock.Columns{"stock": stock - 2}), rowlock.ErrConflict, "a second write with one version")
		// A value that comes back is not a version that comes back.
		stock, version = read()
		must(t, db, "UPDATE items SET stock = stock - 1, version = version + 1 WHERE id = 1")
		must(t, db, "UPDATE items SET stock = stock + 1, version = version + 1 WHERE id = 1")
		isErr(t, items.Write(ctx, db, 1, version, rowlock.Columns{"stock": stock - 1}), rowlock.ErrConflict, "the value went and came back")
		// Nor is a row that comes back the row that was read.
		for _, insert := range []string{
			"INSERT INTO items (id, stock, version) VALUES (1, 100, " + strconv.FormatInt(rowlock.FirstVersion(), 10) + ")",
			"INSERT INTO items (id, stock) VALUES (1, 100)", // by one who does not know of versions
		} {
			stock, version = read()
			must(t, db, "DELETE FROM items WHERE id = 1")
			isErr(t, items.Write(ctx, db, 1, version, rowlock.Columns{"stock": stock - 1}), rowlock.ErrConflict, "the row was deleted")
			must(t, db, insert)
			isErr(t, items.Write(ctx, db, 1, version, rowlock.Columns{"stock": stock - 1}), rowlock.ErrConflict, "the row was deleted and inserted again")
		}
		if got, _ := read(); got != stock {
			t.Errorf("a refused write has changed the stock: got %d, want %d", got, stock)
		}
		isErr(t, errOf(items.Read(ctx, db, 7, rowlock.Columns{"stock": &stock})), sql.ErrNoRows, "no such row")
	})
}

// Promise: a row of that version stays locked until the transaction that has
// written it ends; who has read the same version meets the conflict then.
func TestTwoWhoHaveReadTheSameVersion(t *testing.T) {
	eachWithItems(t, servers, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		ctx, a, b := t.Context(), begin(t, d.open(t)), begin(t, d.open(t))
		version := errtest.Must(items.Read(ctx, a, 1, nil))(t)
		if v, err := items.Read(ctx, b, 1, nil); err != nil || v != version {
			t.Fatalf("got %d, %v; want %d", v, err, version)
		}
		noError(t, items.Write(ctx, a, 1, version, rowlock.Columns{"stock": 1}))
		isErr(t, d.freed(t, "Write of a row that was locked", func() error {
			return items.Write(ctx, b, 1, version, rowlock.Columns{"stock": 2})
		}, func() { commit(t, a) }), rowlock.ErrConflict)
		isErr(t, b.Rollback(), nil)
	})
}

// Promise: a serialization failure is a conflict, of a statement or of a commit, and
// is retried.
func TestASerializationFailureIsAConflict(t *testing.T) {
	eachWithItems(t, []*database{postgres}, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		ctx, db := t.Context(), d.open(t)
		calls := 0
		err := items.Retry(ctx, 3, func(ctx context.Context) error {
			calls++
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			sum := number(t, tx, "SELECT sum(stock) FROM items")
			if calls == 1 { // write skew: two that each read all and change another row
				other, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
				if err != nil {
					return err
				}
				defer other.Rollback()
				number(t, other, "SELECT sum(stock) FROM items")
				must(t, other, "UPDATE items SET stock = stock + 1 WHERE id = 2")
				commit(t, other)
			}
			if _, err := tx.ExecContext(ctx, "UPDATE items SET stock = $1 WHERE id = 1", sum); err != nil {
				return err
			}
			return tx.Commit()
		})
		if err != nil || calls != 2 {
			t.Errorf("got %v after %d calls, want success at the second", err, calls)
		}
		if got := number(t, db, "SELECT stock FROM items WHERE id = 1"); got != 301 {
			t.Errorf("got %d, want the sum with the other's change: 301", got)
		}

		tx := errtest.Must(db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))(t)
		defer tx.Rollback()
		number(t, tx, "SELECT stock FROM items WHERE id = 1")
		must(t, db, "UPDATE items SET stock = 5 WHERE id = 1")
		isErr(t, items.Lock(ctx, tx, 1), rowlock.ErrConflict, "Lock of a row that has changed since the snapshot")
	})
}

// Promise: names exclude only themselves, are told apart by tables, and need
// no more than Create, which many may call: TestTheTableIsCreatedByManyAtOnce.
func TestNamesExcludeOnlyThemselves(t *testing.T) {
	each(t, servers, func(t *testing.T, d *instance) {
		ctx := t.Context()
		set := errtest.Must(rowlock.NewNames(d.rows, "names"))(t)
		noError(t, set.Create(ctx, d.open(t)))
		others := newNames(t, d)
		a, b := begin(t, d.open(t)), begin(t, d.open(t))
		noError(t, set.Lock(ctx, a, "x"))
		isErr(t, set.Lock(ctx, b, "x", rowlock.Wait(0)), rowlock.ErrBusy, "the same name")
		for _, name := range []string{"X", "x ", "y", "größe", string([]byte{0, 255})} {
			if err := set.Lock(ctx, b, name, rowlock.Wait(0)); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		errtest.Is(t, others.Lock(ctx, b, "x", rowlock.Wait(0)), nil, "the same name of another table")
		errtest.Is(t, set.Create(ctx, d.open(t)), nil, "Create while names are locked")
		isOther(t, set.Lock(ctx, b, ""), "the empty name")
		commit(t, a)
		isErr(t, set.Lock(ctx, b, "x", rowlock.Wait(0)), nil)
	})
}

// Promise: many who change a row at once lose no step, whichever way they do it,
// and none fails because of the others.
func TestNoChangeIsLost(t *testing.T) {
	const clients, steps = 8, 10
	// The stock is read, under the lock of its row if there is one, and written.
	pessimistic := func(d *instance, items *rowlock.Versioned, wait time.Duration) func(context.Context, *sql.Tx) error {
		return func(ctx context.Context, tx *sql.Tx) error {
			var stock int
			if err := items.LockAndRead(ctx, tx, 1, rowlock.Columns{"stock": &stock}, rowlock.Wait(wait)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, d.sql("UPDATE items SET stock = ?, version = version + 1 WHERE id = 1"), stock-1)
			return err
		}
	}
	ways := map[string]func(ctx context.Context, d *instance, db *sql.DB, items *rowlock.Versioned, names *rowlock.Names) error{
		"optimistic": func(ctx context.Context, _ *instance, db *sql.DB, items *rowlock.Versioned, _ *rowlock.Names) error {
			return items.Retry(ctx, 10000, func(ctx context.Context) error {
				var stock int
				version, err := items.Read(ctx, db, 1, rowlock.Columns{"stock": &stock})
				if err != nil {
					return err
				}
				return items.Write(ctx, db, 1, version, rowlock.Columns{"stock": stock - 1})
			})
		},
		"pessimistic": func(ctx context.Context, d *instance, db *sql.DB, items *rowlock.Versioned, _ *rowlock.Names) error {
			return items.Do(ctx, db, 10, pessimistic(d, items, time.Minute))
		},
		"impatient": func(ctx context.Context, d *instance, db *sql.DB, items *rowlock.Versioned, _ *rowlock.Names) error {
			return items.Do(ctx, db, 10000, pessimistic(d, items, 0))
		},
		"a name": func(ctx context.Context, d *instance, db *sql.DB, _ *rowlock.Versioned, names *rowlock.Names) error {
			return names.Do(ctx, db, 10, func(ctx context.Context, tx *sql.Tx) error {
				if err := names.Lock(ctx, tx, "items"); err != nil {
					return err
				}
				var stock int
				if err := tx.QueryRowContext(ctx, "SELECT stock FROM items WHERE id = 1").Scan(&stock); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, d.sql("UPDATE items SET stock = ? WHERE id = 1"), stock-1)
				return err
			})
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			eachWithItems(t, databases, func(t *testing.T, d *instance, items *rowlock.Versioned) {
				names := newNames(t, d)
				var all sync.WaitGroup
				for range clients {
					db := d.open(t)
					all.Go(func() {
						for range steps {
							isErr(t, way(t.Context(), d, db, items, names), nil)
						}
					})
				}
				waitFor(t, "clients that write one row at once", &all)
				if got := number(t, d.open(t), "SELECT stock FROM items WHERE id = 1"); got != 100-clients*steps {
					t.Errorf("stock: got %d, want %d", got, 100-clients*steps)
				}
			})
		})
	}
}

// Promise: wherever in a call its context ends, also the transaction's own, the pool
// has a connection without a transaction, and with its settings, afterwards.
func TestACallThatIsCancelledAnywhereLeavesThePoolClean(t *testing.T) {
	setting := map[bool]string{true: "SHOW lock_timeout", false: "SELECT @@innodb_lock_wait_timeout"}
	eachLocker(t, servers, func(t *testing.T, d *instance, lock locker) {
		a, pool := begin(t, d.open(t)), d.open(t)
		pool.SetMaxOpenConns(1)
		text := func() (s string) {
			t.Helper()
			noError(t, pool.QueryRow(setting[d.numbers]).Scan(&s))
			return s
		}
		want := text()
		noError(t, lock(t.Context(), a))
		for range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(4*time.Millisecond))
			tx, err := pool.BeginTx(ctx, nil)
			if err == nil {
				isErr(t, lock(ctx, tx, rowlock.Wait(time.Minute)), context.DeadlineExceeded)
				_ = tx.Rollback()
			} else if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			if got := text(); got != want {
				t.Fatalf("the setting is %s, want %s", got, want)
			}
		}
		must(t, pool, "UPDATE items SET stock = 7 WHERE id = 2")
		if got := number(t, d.open(t), "SELECT stock FROM items WHERE id = 2"); got != 7 {
			t.Errorf("a statement of the pool is not committed at once: the stock is %d, want 7", got)
		}
		commit(t, a)
	})
}
