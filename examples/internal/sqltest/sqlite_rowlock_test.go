package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/rowlock"
)

// eachJournal runs a test on a file of each kind.
func eachJournal(t *testing.T, test func(t *testing.T, file string, items *rowlock.Versioned)) {
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) { test(t, newItems(t, journal), items(t)) })
	}
}

func newItems(t *testing.T, journal string) (file string) {
	return newFile(t, journal,
		"CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, version INTEGER NOT NULL)",
		"INSERT INTO items VALUES (1, 100, 1), (2, 100, 1)")
}

func items(t *testing.T) *rowlock.Versioned {
	return errtest.Must(newVersioned(rowlock.SQLite, "items", "id", "version"))(t)
}

func TestBeginLeavesTheWriteLockToOneTransaction(t *testing.T) {
	eachJournal(t, func(t *testing.T, file string, items *rowlock.Versioned) {
		ctx := t.Context()
		// The busy_timeout of a connection does not become the wait of a call that has a shorter one, nor makes it
		// deaf to its context.
		a, b := open(t, file+"&_pragma=busy_timeout(60000)"), open(t, file+"&_pragma=busy_timeout(600000)")
		tx := errtest.Must(items.Begin(ctx, a))(t)
		isErr(t, items.Lock(ctx, tx, 1), nil, "Lock after Begin")
		isErr(t, errOf(items.Begin(ctx, b, rowlock.Wait(0))), rowlock.ErrBusy, "Begin while another holds the lock")
		isErr(t, errOf(items.Begin(ctx, b, rowlock.Wait(30*time.Millisecond))), rowlock.ErrBusy, "Begin while another holds the lock")
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		isErr(t, errOf(items.Begin(short, b)), context.DeadlineExceeded, "Begin whose context ends")
		if got := number(t, b, "SELECT stock FROM items WHERE id = 1"); got != 100 {
			t.Errorf("a reader meanwhile: got %d, want 100", got)
		}
		isErr(t, (&instance{}).freed(t, "Begin, after the holder has ended", func() error {
			tx, err := items.Begin(ctx, b)
			if err != nil {
				return err
			}
			var stock int
			err = tx.QueryRow("SELECT stock FROM items WHERE id = 1").Scan(&stock)
			if err == nil && stock != 99 {
				err = fmt.Errorf("stock is %d, want the latest, 99", stock)
			}
			return errors.Join(err, tx.Rollback())
		}, func() {
			must(t, tx, "UPDATE items SET stock = 99 WHERE id = 1")
			commit(t, tx)
		}), nil)
	})
}

func TestABeginThatFailedLeavesItsConnectionClean(t *testing.T) {
	eachJournal(t, func(t *testing.T, file string, items *rowlock.Versioned) {
		ctx := t.Context()
		a, b := open(t, file), open(t, file)
		b.SetMaxOpenConns(1)
		tx, err := items.Begin(ctx, a)
		noError(t, err)
		for range 20 { // so that the context ends at different steps
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			isErr(t, errOf(items.Begin(short, b)), context.DeadlineExceeded)
			cancel()
			isErr(t, errOf(items.Begin(ctx, b, rowlock.Wait(time.Millisecond))), rowlock.ErrBusy)
		}
		commit(t, tx)
		must(t, b, "UPDATE items SET stock = 98 WHERE id = 1") // in no transaction, so it is seen at once
		if got := number(t, a, "SELECT stock FROM items WHERE id = 1"); got != 98 {
			t.Errorf("stock: got %d, want 98", got)
		}
		tx, err = items.Begin(ctx, b)
		noError(t, err)
		commit(t, tx)
	})
}

func TestLockInTheCallersTransaction(t *testing.T) {
	eachJournal(t, func(t *testing.T, file string, items *rowlock.Versioned) {
		ctx := t.Context()
		a, b := open(t, file), open(t, file)

		holder := begin(t, a)
		noError(t, items.Lock(ctx, holder, 1))
		other := begin(t, b)
		isErr(t, items.Lock(ctx, other, 1), rowlock.ErrBusy, "held by another")
		must(t, holder, "UPDATE items SET stock = 99 WHERE id = 1")
		commit(t, holder)

		fresh := begin(t, b)
		errtest.MustBe(t, items.Lock(ctx, fresh, 1), nil, "after the other's commit")
		if got := number(t, fresh, "SELECT stock FROM items WHERE id = 1"); got != 99 {
			t.Errorf("read under the lock: got %d, want the latest, 99", got)
		}
		isErr(t, items.Lock(ctx, fresh, 7), sql.ErrNoRows, "no such row")
	})
}

func TestWhatComesAfterAnOutdatedReadIsAConflict(t *testing.T) {
	ctx, file, items := t.Context(), newItems(t, "WAL"), items(t)
	a, b := open(t, file), open(t, file)
	locks, writes := begin(t, a), begin(t, a)
	number(t, locks, "SELECT stock FROM items WHERE id = 1")
	version := errtest.Must(items.Read(ctx, writes, 1, nil))(t)
	must(t, b, "UPDATE items SET stock = 99 WHERE id = 2")
	isErr(t, items.Lock(ctx, locks, 1), rowlock.ErrConflict, "Lock")
	isErr(t, items.Write(ctx, writes, 1, version, rowlock.Columns{"stock": 0}), rowlock.ErrConflict, "Write")
}

func TestRetryCallsAgainOnConflictsOnlyAndOnlySoOften(t *testing.T) {
	items := items(t)
	for _, c := range []struct {
		name   string
		errs   []error // of the calls, the last for ever
		calls  int
		called int
		want   error
	}{
		{"no error", []error{nil}, 3, 1, nil},
		{"another error", []error{sql.ErrNoRows}, 3, 1, sql.ErrNoRows},
		{"a conflict", []error{rowlock.ErrConflict, nil}, 3, 2, nil},
		{"busy", []error{rowlock.ErrBusy, nil}, 3, 2, nil},
		{"the driver's own busy", []error{errors.New("database is locked"), nil}, 3, 2, nil},
		{"nothing but conflicts", []error{rowlock.ErrConflict}, 3, 3, rowlock.ErrConflict},
		{"nothing but the driver's busy", []error{errors.New("sqlite3: database is locked")}, 3, 3, rowlock.ErrBusy},
	} {
		called := 0
		err := items.Retry(t.Context(), c.calls, func(context.Context) error {
			called++
			return c.errs[min(called, len(c.errs))-1]
		})
		if !errors.Is(err, c.want) || called != c.called {
			t.Errorf("%s: got %v after %d calls; want %v after %d", c.name, err, called, c.want, c.called)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := items.Retry(ctx, 1000, func(context.Context) error { cancel(); return rowlock.ErrConflict })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, rowlock.ErrConflict) {
		t.Errorf("context ended: got %v, want its error and the conflict", err)
	}
	isOther(t, items.Retry(t.Context(), 0, func(context.Context) error { return nil }), "no calls at all")
}

// SQLite reads a name in double quotes that is no column as a text. A misspelt
// version would then never match, and each write be a conflict.
func TestMisspeltNamesAreErrors(t *testing.T) {
	ctx, db := t.Context(), open(t, newItems(t, "WAL"))
	for _, names := range [][3]string{{"itemz", "id", "version"}, {"items", "idd", "version"}, {"items", "id", "verzion"}} {
		v := errtest.Must(newVersioned(rowlock.SQLite, names[0], names[1], names[2]))(t)
		if names[2] == "version" {
			isOther(t, errOf(v.Begin(ctx, db)), fmt.Sprint("Begin, ", names), rowlock.ErrBusy)
			isOther(t, v.Lock(ctx, begin(t, db), 1), fmt.Sprint("Lock, ", names), sql.ErrNoRows)
		}
		isOther(t, v.Write(ctx, db, 1, 1, nil), fmt.Sprint("Write, ", names), rowlock.ErrConflict)
		isOther(t, errOf(v.Read(ctx, db, 1, nil)), fmt.Sprint("Read, ", names), sql.ErrNoRows)
	}
	isOther(t, items(t).Write(ctx, db, 1, 1, rowlock.Columns{"stok": 1}), "Write of a misspelt column", rowlock.ErrConflict)
	isOther(t, items(t).Write(ctx, db, 1, 1, rowlock.Columns{"Version": 1}), "Write of the version itself")
	for _, names := range [][3]string{{"", "id", "version"}, {"items", "", "version"}, {"items", "id", ""}} {
		isOther(t, errOf(newVersioned(rowlock.SQLite, names[0], names[1], names[2])), fmt.Sprintf("%q", names))
	}
}

func TestNamesCannotBecomeSQL(t *testing.T) {
	const evil = "x` = 0; DROP TABLE items; --"
	db := open(t, newFile(t, "WAL",
		"CREATE TABLE items (id INTEGER PRIMARY KEY)",
		"CREATE TABLE `order` (`group` INTEGER PRIMARY KEY, `x`` = 0; DROP TABLE items; --` INTEGER, `select` INTEGER NOT NULL)",
		"INSERT INTO `order` VALUES (1, 0, 1)"))
	v := errtest.Must(newVersioned(rowlock.SQLite, "main.order", "group", "select"))(t)
	noError(t, v.Write(t.Context(), db, 1, 1, rowlock.Columns{evil: 5}))
	var got int
	if version, err := v.Read(t.Context(), db, 1, rowlock.Columns{evil: &got}); err != nil || got != 5 || version != 2 {
		t.Errorf("got %d, version %d, %v; want 5, version 2", got, version, err)
	}
	number(t, db, "SELECT count(*) FROM items")
}
