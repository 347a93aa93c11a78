package rowlock

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/rows"
)

// Begin starts a transaction in which rows of the table can be locked. As with
// sql.DB.BeginTx, the transaction is rolled back when ctx ends.
//
// On PostgreSQL, MySQL and MariaDB it is a transaction of READ COMMITTED, in
// which what is read after a Lock is the latest state. Nothing is waited for. A
// MySQL whose binlog_format is STATEMENT refuses writes in it: lock in a
// transaction of your own there.
//
// On SQLite it is a BEGIN IMMEDIATE: Begin waits until the transaction has the
// write lock of the file. Then every read and write of the transaction is of the
// latest state, and nobody else writes to any table until it ends, not even if
// its process is stopped in the middle; readers go on. Waiters try again every
// few milliseconds, in no order, each with a connection of its own: the size of
// the pool bounds how many of a process do. A connection that is set to begin
// every transaction with BEGIN IMMEDIATE waits one busy_timeout at each try.
// Where the file is not in WAL mode, give each connection a busy_timeout: a
// commit there waits for readers, and a waiter is one for a moment.
func (t *Table) Begin(ctx context.Context, db Beginner, opts ...Option) (*sql.Tx, error) {
	return begin(ctx, db, t.rows, configOf(opts))
}

// Do runs f in a transaction of Begin and commits it, or rolls it back if f
// fails. If f or the commit fails with an error that is [Retryable], or with the
// database's error that means it, all of it is done again, as by [Table.Retry].
//
// f must return every error of the transaction, and do nothing outside of it
// that cannot be done twice. The options are those of Begin. An error of the commit that says nothing of what
// became of it, such as a broken connection, is returned.
func (t *Table) Do(ctx context.Context, db Beginner, calls int, f func(ctx context.Context, tx *sql.Tx) error, opts ...Option) error {
	return do(ctx, db, t.rows, calls, f, configOf(opts))
}

// Retry calls f until it returns something else than an error that is
// [Retryable], or the database's error that means it, at most the given number of
// times, and returns what f returned. Each call must read anew, in a transaction
// of its own, and roll back what it began.
//
// Before each further call it pauses, for a random time of up to 1, 2, 4 … 100
// milliseconds. When ctx ends, or after the last call, it returns the last
// error.
func (t *Table) Retry(ctx context.Context, calls int, f func(context.Context) error) error {
	return rows.Retry(ctx, t.rows.D, calls, f)
}

func do(ctx context.Context, db Beginner, t *rows.Table, calls int, f func(context.Context, *sql.Tx) error, c rows.Config) error {
	return rows.Retry(ctx, t.D, calls, func(ctx context.Context) error {
		tx, err := begin(ctx, db, t, c)
		if err != nil {
			return err
		}
		defer tx.Rollback() // nothing after a commit
		if err := f(ctx, tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}

func begin(ctx context.Context, db Beginner, t *rows.Table, c rows.Config) (tx *sql.Tx, err error) {
	if t.D == rows.SQLite {
		tx, err = beginImmediate(ctx, db, t, c.Wait)
	} else {
		tx, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	}
	if err != nil {
		return nil, fmt.Errorf("rowlock: begin: %w", rows.Explain(t.D, err))
	}
	return tx, nil
}

// beginImmediate is a BEGIN IMMEDIATE through database/sql, which does not know
// it: a plain transaction that tries to get the write lock and, if that fails,
// begins again behind the back of its Tx. So it does not wait in SQLite itself,
// which would be for one busy_timeout, in many drivers even if the context ends.
// And since a waiter keeps its connection, the size of the pool bounds how many
// of a process try at a time.
func beginImmediate(ctx context.Context, db Beginner, t *rows.Table, wait time.Duration) (tx *sql.Tx, err error) {
	start := time.Now()
	for try := 0; ; try++ {
		if tx == nil {
			tx, err = db.BeginTx(ctx, nil)
		} else {
			err = beginAgain(ctx, tx)
		}
		if err == nil {
			err = rows.WriteNow(ctx, rows.Tx(tx), t)
		}
		if err == nil {
			return tx, nil
		}
		pause := rows.Backoff(try, 20*time.Millisecond)
		left := wait - time.Since(start)
		switch {
		case t.D.Meaning(err) == nil:
		case wait == rows.Forever:
			err = backoff.Sleep(ctx, pause)
		case left > 0:
			err = backoff.Sleep(ctx, min(pause, left))
		default:
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		if err != nil {
			break
		}
	}
	if tx != nil {
		_ = tx.Rollback() // an error of it would be about a transaction that has done nothing
	}
	if ctx.Err() != nil {
		err = ctx.Err() // else it says that there is no transaction any more
	}
	return nil, err
}

// beginAgain begins the same transaction anew, without what it has read.
func beginAgain(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "ROLLBACK"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "BEGIN")
	return err
}
