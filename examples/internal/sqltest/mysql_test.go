package sqltest

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/rowlock"
)

// Promise: where the server rolls the whole transaction back because of one lock
// that was busy, the transaction has ended here too: nothing that its caller goes on
// to write is committed.
func TestATransactionThatTheServerHasEndedHasEnded(t *testing.T) {
	wait, bound := rowlock.Wait(0), "50"
	if !mysqltest.MariaDB() { // which rolls nothing back but when its own time is up
		wait, bound = rowlock.Wait(time.Hour), "1"
	}
	s := mysqltest.Start(t, mysqltest.Config("innodb_rollback_on_timeout", "ON"), mysqltest.Config("innodb_lock_wait_timeout", bound))
	db := openWith(t, "mysql", s.DSN())
	must(t, db, "CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL)")
	must(t, db, "INSERT INTO items VALUES (1, 100), (2, 100)")
	items := errtest.Must(rowlock.NewTable(rowlock.MySQL, "items", "id"))(t)
	a, b := begin(t, db), begin(t, db)
	noError(t, items.Lock(t.Context(), a, 1))
	must(t, b, "UPDATE items SET stock = 7 WHERE id = 2")
	isErr(t, items.Lock(t.Context(), b, 1, wait), rowlock.ErrBusy)
	isErr(t, errOf(b.Exec("UPDATE items SET stock = 8 WHERE id = 2")), sql.ErrTxDone, "a statement afterwards")
	if got := number(t, db, "SELECT stock FROM items WHERE id = 2"); got != 100 {
		t.Errorf("the stock is %d, want all of the transaction gone: 100", got)
	}
}

// Promise: on a server that does not let a transaction lock what has changed since
// its snapshot, that is a conflict.
func TestARowThatHasChangedSinceTheSnapshotIsAConflict(t *testing.T) {
	if !mysqltest.MariaDB() {
		t.Skip("MySQL has no innodb_snapshot_isolation")
	}
	eachWithItems(t, []*database{mariadb}, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		db := d.open(t)
		tx := begin(t, db)
		must(t, tx, "SET innodb_snapshot_isolation = ON")
		number(t, tx, "SELECT stock FROM items WHERE id = 1")
		must(t, tx, "UPDATE items SET stock = 7 WHERE id = 2")
		must(t, db, "UPDATE items SET stock = 99 WHERE id = 1")
		isErr(t, items.Lock(t.Context(), tx, 1), rowlock.ErrConflict)
		_, _ = tx.Exec("UPDATE items SET stock = 8 WHERE id = 3") // by a caller who does not look at errors
		_ = tx.Commit()
		if n := number(t, db, "SELECT count(*) FROM items WHERE stock IN (7, 8)"); n != 0 {
			t.Errorf("%d changes of the failed transaction were committed", n)
		}
	})
}

// Promise: a wait may last longer than the server's own bound. MariaDB has a clause for
// that; MySQL has none, so that it is asked again.
func TestAWaitMayBeLongerThanTheServers(t *testing.T) {
	if mysqltest.MariaDB() {
		t.Skip("it waits as long as the statement says")
	}
	eachWithItems(t, []*database{mariadb}, func(t *testing.T, d *instance, items *rowlock.Versioned) {
		const wait = 2200 * time.Millisecond
		a, b := begin(t, d.open(t)), begin(t, d.open(t))
		must(t, a, "UPDATE items SET stock = 7 WHERE id = 1")
		must(t, b, "SET innodb_lock_wait_timeout = 1")
		began := time.Now()
		if err := items.Lock(t.Context(), b, 1, rowlock.Wait(wait)); !errors.Is(err, rowlock.ErrBusy) || time.Since(began) < wait {
			t.Errorf("got %v after %v, want ErrBusy after %v", err, time.Since(began), wait)
		}
		commit(t, a)
		errtest.Is(t, items.Lock(t.Context(), b, 1), nil, "afterwards")
	})
}
