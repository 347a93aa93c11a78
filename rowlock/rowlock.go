// Package rowlock protects rows of the caller's own tables inside the caller's
// own transactions, without any lock besides the database's: on PostgreSQL, on
// MySQL and MariaDB, and on SQLite. For pgx without database/sql there is
// package pgxrow.
//
// # Pessimistic
//
// [Table] locks a row before it is read. Whoever else locks or writes it waits
// until the transaction ends. That suits rows that many want to change at once,
// if the work between reading and writing is short.
//
//	items, err := rowlock.NewTable(rowlock.PostgreSQL, "items", "id")
//	…
//	err = items.Do(ctx, db, 10, func(ctx context.Context, tx *sql.Tx) error {
//		var stock int
//		if err := items.LockAndRead(ctx, tx, id, rowlock.Columns{"stock": &stock}); err != nil {
//			return err
//		}
//		_, err := tx.ExecContext(ctx, "UPDATE items SET stock = $1 WHERE id = $2", stock-1, id)
//		return err
//	})
//
// [Names] locks a name instead, for what is no row.
//
// # Optimistic
//
// [Versioned] reads a row together with its version, and writes it back only if
// that version still stands. Nothing is locked in between. That suits rows that
// are rarely changed by two at once, and work that takes long or waits for
// people.
//
//	err := items.Retry(ctx, 10, func(ctx context.Context) error {
//		var stock int
//		version, err := items.Read(ctx, db, id, rowlock.Columns{"stock": &stock})
//		if err != nil {
//			return err
//		}
//		return items.Write(ctx, db, id, version, rowlock.Columns{"stock": stock - 1})
//	})
//
// # When a call fails
//
// [ErrBusy], [ErrConflict] and [ErrDeadlock] mean that the same may succeed in a
// new transaction: [Retryable]. [Table.Do] and [Table.Retry] begin again by
// themselves.
//
// A transaction in which a call has failed is to be rolled back, with one
// exception: after an ErrBusy of a call with [Wait], and after sql.ErrNoRows, it
// goes on as if the call had not been made. PostgreSQL refuses everything else in
// a failed transaction. MySQL does not: after a deadlock it has rolled the
// transaction back and would commit what comes next statement by statement.
// Calls of this package that see this end the sql.Tx as well, so that its further
// use is sql.ErrTxDone; after statements of your own it is you who must not go
// on.
//
// When the context of a call ends while it waits, the transaction is lost, and
// with most drivers its connection too. MySQL and MariaDB do not notice that
// before the wait is over: until then the lost transaction keeps its other locks
// and its place in the line.
//
// # Deadlocks
//
// Transactions that lock several rows should lock them in the same order
// everywhere. Where they do not, the database ends one of those that wait for
// each other, with ErrDeadlock.
//
// # Names of tables and columns
//
// Names are taken literally, upper and lower case too, and never as SQL. So on
// PostgreSQL a table that was made as Items without quotes is called items.
package rowlock

import (
	"context"
	"database/sql"

	"github.com/interlock-go/interlock/internal/rows"
)

var (
	// ErrBusy says that somebody else holds the lock, and held it as long as the
	// call was to wait. Nothing was changed.
	ErrBusy = rows.ErrBusy

	// ErrConflict says that somebody else has changed the row, or another row
	// that the database cannot tell from it. Nothing was changed: roll the
	// transaction back, read again and decide anew.
	ErrConflict = rows.ErrConflict

	// ErrDeadlock says that transactions waited for each other, and that the
	// database has chosen this one to end, with all that it has done.
	ErrDeadlock = rows.ErrDeadlock
)

// Retryable reports whether err is ErrBusy, ErrConflict or ErrDeadlock: the same
// may succeed in a new transaction.
func Retryable(err error) bool { return rows.Retryable(err) }

// Columns are some columns of a row by their names: with pointers to scan into
// where a row is read, with their new values where it is written.
type Columns map[string]any

// Key is the key of a row in a table whose key has several columns, in the order
// of [NewTable].
type Key []any

// Beginner is a *sql.DB or a *sql.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

// Queryer is a *sql.DB, a *sql.Conn or a *sql.Tx.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Execer is a *sql.DB, a *sql.Conn or a *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}
