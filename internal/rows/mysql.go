package rows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/internal/ident"
)

// MySQL is the dialect of MySQL and of MariaDB.
var MySQL Dialect = mysql{ident.MySQL}

type mysql struct{ ident.Syntax }

// Where the two differ, MariaDB reads what stands behind /*M!, and MySQL what
// stands behind /*!80001.
const (
	myForUpdate = " FOR UPDATE"
	myForShare  = " /*M! LOCK IN SHARE MODE */ /*!80001 FOR SHARE */"
)

func (d mysql) LockRow(ctx context.Context, tx Conn, r Row, c Config) error {
	clause := myForUpdate
	if c.Shared {
		clause = myForShare
	}
	if c.Wait == Forever {
		return d.lock(ctx, tx, r, clause)
	}
	// The server waits for whole seconds only. So first comes the rest, without a
	// place in its line.
	seconds := c.Wait / time.Second
	err := poll(ctx, d, c.Wait-seconds*time.Second, func() error { return d.lock(ctx, tx, r, clause+" NOWAIT") })
	if d.Meaning(err) != ErrBusy || seconds == 0 || d.Ended(err) {
		return err
	}
	return d.within(ctx, tx, r, clause, seconds*time.Second)
}

// within waits in the server's line, at least a second: MariaDB's by WAIT, and that of
// MySQL, which has none, by a bound on the statement. A setting of the session would do
// as well, but nobody could set it back if the transaction's own context ended meanwhile,
// and the connection outlives the transaction.
func (d mysql) within(ctx context.Context, tx Conn, r Row, clause string, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for {
		bounded := r
		bounded.Select = fmt.Sprintf("SELECT /*+ MAX_EXECUTION_TIME(%d) */", wait.Milliseconds()) + strings.TrimPrefix(r.Select, "SELECT")
		err := d.lock(ctx, tx, bounded, fmt.Sprintf("%s /*M! WAIT %d */", clause, wait/time.Second))
		switch n := number(err); {
		case n == myTimedOut || n == myTimedOutToo:
			return &outOfTime{err}
		case n != myLockWaitTimeout || d.Ended(err):
			return err
		}
		// The server's own bound, innodb_lock_wait_timeout, was shorter.
		if wait = time.Until(deadline); wait <= 0 {
			return err
		}
		if wait < time.Second {
			return poll(ctx, d, wait, func() error { return d.lock(ctx, tx, r, clause+" NOWAIT") })
		}
	}
}

// outOfTime is the error of a statement that was to wait for a lock so long, and not
// longer.
type outOfTime struct{ error }

func (e *outOfTime) Unwrap() error { return e.error }

// lock notices a server that rolls back the whole transaction where others only
// fail the statement.
func (d mysql) lock(ctx context.Context, tx Conn, r Row, clause string) error {
	err := r.lock(ctx, tx, clause)
	if number(err) == myLockWaitTimeout {
		var all bool
		if failed := tx.Row(ctx, "SELECT @@innodb_rollback_on_timeout", nil, &all); failed != nil {
			return fmt.Errorf("%w; then: %w", errUnknown, failed)
		}
		if all {
			return &rolledBack{err}
		}
	}
	return err
}

var errUnknown = errors.New("the lock was not free, and whether the transaction still stands is unknown")

// rolledBack is an error that the transaction did not survive.
type rolledBack struct{ error }

func (e *rolledBack) Unwrap() error { return e.error }

// LockName locks a row that stands for the name.
func (d mysql) LockName(ctx context.Context, tx Conn, n *Names, name string, c Config) error {
	err := n.slots.lock(ctx, tx, n.slot(name), nil, c)
	if isNone(err) {
		return errNoNames
	}
	return err
}

// CreateNames makes one row for each slot, in one statement: all or none. Who
// finds them does not touch them, since somebody may have locked some.
func (d mysql) CreateNames(ctx context.Context, db Conn, n *Names) error {
	create := "CREATE TABLE IF NOT EXISTS " + n.slots.table + " (slot INTEGER PRIMARY KEY) ENGINE = InnoDB"
	if _, err := db.Exec(ctx, create); err != nil {
		return err
	}
	if there, err := found(ctx, db, "SELECT 1 FROM "+n.slots.table+" LIMIT 1"); err != nil || there {
		return err
	}
	const digits = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 " +
		"UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11 " +
		"UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15)"
	fill := "INSERT INTO " + n.slots.table + " (slot) SELECT a.n + 16 * b.n + 256 * c.n + 4096 * d.n AS slot FROM " +
		digits + " a, " + digits + " b, " + digits + " c, " + digits + " d ORDER BY slot"
	_, err := db.Exec(ctx, fill)
	if IsDuplicate(err) { // somebody else was faster
		return nil
	}
	return err
}

// IsDuplicate says whether MySQL has refused a row because its key is there already.
func IsDuplicate(err error) bool { return number(err) == myDuplicate }

// Numbers of MySQL and MariaDB.
const (
	myRecordChanged   = 1020 // MariaDB with innodb_snapshot_isolation
	myDuplicate       = 1062
	myLockWaitTimeout = 1205 // MariaDB also with NOWAIT
	myDeadlock        = 1213
	myTimedOutToo     = 1969 // MariaDB, if it reads the hint
	myTimedOut        = 3024
	myLockNoWait      = 3572
)

func (mysql) Meaning(err error) error {
	if late := (*outOfTime)(nil); errors.As(err, &late) {
		return ErrBusy
	}
	switch number(err) {
	case myLockWaitTimeout, myLockNoWait:
		return ErrBusy
	case myRecordChanged:
		return ErrConflict
	case myDeadlock:
		return ErrDeadlock
	}
	return nil
}

func (mysql) Ended(err error) bool {
	var gone *rolledBack
	return errors.As(err, &gone) || number(err) == myDeadlock || number(err) == myRecordChanged
}
