// Package rowlock protects rows of the caller's own tables inside the caller's
// own transactions, without any lock besides the database's.
//
// # Pessimistic
//
// [Table] locks a row before it is read. Whoever else locks it waits until the
// transaction ends. That suits rows that many want to change at once, if the
// work between reading and writing is short: the row, and on SQLite the whole
// database, is closed to other writers for that time.
//
//	tx, err := items.Begin(ctx, db, rowlock.Wait(time.Second))
//	if err != nil {
//		return err // ErrBusy: not within a second
//	}
//	defer tx.Rollback()
//	if err := items.Lock(ctx, tx, id); err != nil {
//		return err
//	}
//	// read, change and write the row in tx
//	return tx.Commit()
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
package rowlock

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

var (
	// ErrBusy says that somebody else holds the lock, and held it as long as the
	// call was to wait. Nothing was changed.
	ErrBusy = errors.New("busy")

	// ErrConflict says that somebody else has changed the row, or another row
	// that the database cannot tell from it. Nothing was changed: roll the
	// transaction back, read again and decide anew.
	ErrConflict = errors.New("row changed")
)

// Dialect is the way of one database to lock rows.
type Dialect interface {
	table(name string) (string, error)
	column(name string) (string, error)

	// param is the placeholder of the n-th argument, from 1.
	param(n int) string

	// begin starts a transaction that can lock rows of t, and waits at most wait
	// (forever: until ctx ends) for what it needs.
	begin(ctx context.Context, db Beginner, t *Table, wait time.Duration) (*sql.Tx, error)

	// lock locks the row until the end of the transaction, and reports whether
	// there is one.
	lock(ctx context.Context, tx *sql.Tx, t *Table, key any) (bool, error)

	// explain adds ErrBusy or ErrConflict to an error of the database that means
	// it.
	explain(err error) error
}

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

// explained is an error of the database together with what it means.
type explained struct{ meaning, err error }

func (e *explained) Error() string   { return e.meaning.Error() + ": " + e.err.Error() }
func (e *explained) Unwrap() []error { return []error{e.meaning, e.err} }
