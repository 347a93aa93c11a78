package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/internal/ident"
)

// PostgreSQL is the dialect of PostgreSQL, with any driver whose errors have a
// method SQLState.
var PostgreSQL Dialect = postgres{ident.PostgreSQL}

type postgres struct{ ident.Syntax }

func (d postgres) LockRow(ctx context.Context, tx Conn, r Row, c Config) error {
	clause := " FOR UPDATE"
	if c.Shared {
		clause = " FOR SHARE"
	}
	if c.Wait != Forever {
		err := d.rowIfFree(ctx, tx, r, clause)
		if c.Wait == 0 || !errors.Is(err, ErrBusy) {
			return err
		}
	}
	return d.within(ctx, tx, c.Wait, func() error { return d.latestRow(ctx, tx, r, clause) })
}

// rowIfFree does not wait. NOWAIT would abort the transaction if somebody else
// has locked the row.
func (postgres) rowIfFree(ctx context.Context, tx Conn, r Row, clause string) error {
	err := r.lock(ctx, tx, clause+" SKIP LOCKED")
	if !isNone(err) {
		return err
	}
	switch there, failed := r.exists(ctx, tx); {
	case failed != nil:
		return failed
	case there:
		return ErrBusy
	}
	return err
}

// latestRow waits. A statement does not see a row that came into being while it
// waited: if the one that it waited for was deleted and inserted again, it finds
// none, and the next statement does.
func (postgres) latestRow(ctx context.Context, tx Conn, r Row, clause string) error {
	for {
		err := r.lock(ctx, tx, clause)
		if !isNone(err) {
			return err
		}
		switch there, failed := r.exists(ctx, tx); {
		case failed != nil:
			return failed
		case !there:
			return err
		}
	}
}

func (d postgres) LockName(ctx context.Context, tx Conn, n *Names, name string, c Config) error {
	shared := ""
	if c.Shared {
		shared = "_shared"
	}
	if c.Wait != Forever {
		var free bool
		err := tx.Row(ctx, "SELECT pg_try_advisory_xact_lock"+shared+"($1)", []any{n.hash(name)}, &free)
		if err != nil || free {
			return err
		}
		if c.Wait == 0 {
			return ErrBusy
		}
	}
	return d.within(ctx, tx, c.Wait, func() error {
		var one int
		return tx.Row(ctx, "SELECT 1 FROM pg_advisory_xact_lock"+shared+"($1)", []any{n.hash(name)}, &one)
	})
}

// CreateNames has nothing to do: an advisory lock is a number.
func (postgres) CreateNames(context.Context, Conn, *Names) error { return nil }

// within runs f, which waits for a lock, with a bound. If f does not get it, the
// transaction is as before: a savepoint takes the failure, and what is set
// inside is undone with it.
func (d postgres) within(ctx context.Context, tx Conn, wait time.Duration, f func() error) error {
	if wait == Forever {
		return f()
	}
	if _, err := tx.Exec(ctx, "SAVEPOINT interlock_rowlock"); err != nil {
		return err
	}
	var before, now string
	set := "SELECT current_setting('lock_timeout'), set_config('lock_timeout', $1, true)"
	bound := strconv.FormatInt(max(wait.Milliseconds(), 1), 10)
	if err := tx.Row(ctx, set, []any{bound}, &before, &now); err != nil {
		return err
	}
	err := f()
	switch {
	case err == nil, errors.Is(err, sql.ErrNoRows):
		if failed := tx.Row(ctx, "SELECT set_config('lock_timeout', $1, true)", []any{before}, &now); failed != nil {
			return fmt.Errorf("set lock_timeout to what it was: %w", failed)
		}
	case d.Meaning(err) == ErrBusy:
		if _, failed := tx.Exec(ctx, "ROLLBACK TO SAVEPOINT interlock_rowlock"); failed != nil {
			return fmt.Errorf("roll back to a savepoint: %w", failed)
		}
	default:
		return err
	}
	if _, failed := tx.Exec(ctx, "RELEASE SAVEPOINT interlock_rowlock"); failed != nil {
		return failed
	}
	return err
}

// Codes of PostgreSQL.
const (
	pgViolation            = "23" // of a constraint: a class
	pgSerializationFailure = "40001"
	pgDeadlockDetected     = "40P01"
	pgLockNotAvailable     = "55P03" // NOWAIT, or lock_timeout
)

func (postgres) Meaning(err error) error {
	switch state(err) {
	case pgLockNotAvailable:
		return ErrBusy
	case pgSerializationFailure:
		return ErrConflict
	case pgDeadlockDetected:
		return ErrDeadlock
	}
	return nil
}

// Ended is never true: PostgreSQL refuses all statements until the rollback.
func (postgres) Ended(error) bool { return false }
