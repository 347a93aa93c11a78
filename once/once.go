// Package once makes a piece of work take effect once for each key, however often it is asked
// for: by a client that did not hear the answer, by a button that was clicked twice, by a job
// that begins again after a crash.
//
// The result is stored in a table of the database that the work writes to, in the same
// transaction. So either both are committed or neither. Whoever asks again with the same key
// gets the result that is stored.
//
//	orders, err := once.NewTable(once.PostgreSQL, once.DefaultTable)
//	…
//	answer, repeated, err := orders.Run(ctx, db, 5, key, func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
//		_, err := tx.ExecContext(ctx, "INSERT INTO orders …")
//		return []byte("ordered"), err
//	})
//
// # Keys
//
// A key names one piece of work: the Idempotency-Key of a request together with the user who
// sent it, the number of an order, a job and its step. Two pieces of work that differ need two
// keys. [Request] notices a key that is used again for something else.
//
// # What is stored, and what is not
//
// Only a result counts as done. If the function fails, nothing is stored, and the next call with
// the key runs it again. An answer that must stay the same when it is asked for again, such as
// "sold out", is a result and not an error.
//
// What the function does outside of the transaction happens as often as the function runs. Give
// the key to the other service, if it takes one.
//
// # Two calls with one key
//
// The second one waits until the transaction of the first has ended. Then it gets the result, or,
// if the first was rolled back, runs the function. The context bounds the wait, and so does what
// the database is set to: lock_timeout of PostgreSQL, innodb_lock_wait_timeout of MySQL and
// MariaDB, busy_timeout of SQLite. MySQL and MariaDB do not notice the end of a context before the
// wait is over.
//
// So the key should be the first thing that a transaction locks, before any row. Where one
// transaction locks a row and then asks with a key, and another does it the other way round, they
// deadlock, and the database ends one of them. A transaction that asks with several keys should
// do so in their order.
//
// # When a call fails
//
// Whenever Do returns an error, or its function panics, the transaction has been rolled back:
// commit it, and it is sql.ErrTxDone. The same call may be made again, in a new transaction.
// That helps if the error wraps [ErrBusy], [ErrConflict] or [ErrDeadlock], for which package
// rowlock has Retryable; [Table.Run] does it by itself. In a transaction of REPEATABLE READ or
// SERIALIZABLE, PostgreSQL answers a key that came after its snapshot with ErrConflict, and so
// does a SQLite transaction that has read before, if anything was written since.
//
// A commit whose reply is lost leaves open whether the work counts. The same call, with the same
// key, finds out: it returns the result if it was committed, and does the work if not.
//
// # Locks
//
// No lock is needed for this. Where the work is done under a lock of Interlock, [Under] stores its
// token with the result, and refuses a holder whose lock has passed on to the one that did the work.
// That is about the key. What the work writes is protected by package fence, at the beginning of
// the function: then a repeated call gets its result even if its lock was lost meanwhile.
//
// # How long
//
// A key is remembered until [Table.Sweep] deletes it. Sweep what is older than the longest time
// after which anybody asks again: a day is usual for requests.
package once

import (
	"context"
	"database/sql"
	"errors"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/rows"
)

// DefaultTable is the usual name of a [Table].
const DefaultTable = "interlock_once"

const (
	MaxKey    = 512     // bytes of a key
	MaxResult = 1 << 20 // bytes of a result
)

var (
	// ErrMismatch says that the key has been used for another request: see [Request].
	ErrMismatch = errors.New("this key was used for another request")

	// ErrInvalid says that this key or result cannot be stored.
	ErrInvalid = driver.ErrInvalid

	// ErrBusy says that another call with this key did not end in the time that the database
	// waits for a lock.
	ErrBusy = rows.ErrBusy

	// ErrConflict says that the transaction is older than what it would have to read.
	ErrConflict = rows.ErrConflict

	// ErrDeadlock says that transactions waited for each other, and that the database has
	// chosen this one to end.
	ErrDeadlock = rows.ErrDeadlock
)

// Beginner is a *sql.DB or a *sql.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

// Queryer is a *sql.DB, a *sql.Conn or a *sql.Tx.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Conn is a transaction of a client of the database other than database/sql, such as that of
// package pgxrow for pgx.
type Conn = rows.Conn

// Option says more about one call.
type Option func(*config)

type config struct {
	grant   fence.Grant
	under   bool
	request []byte // the sum of the request; nil: nothing is known of it
}

// Under says which grant the work is done under: a *interlock.Lease, or a token that came as a
// number (fence.Token). Its token is stored with the result. A call whose token is smaller than
// the stored one is refused with fence.ErrStale: a later holder of the lock has done the work.
// A grant whose token cannot be compared is refused with fence.ErrNotComparable, a nil one too.
func Under(g fence.Grant) Option {
	return func(c *config) { c.grant, c.under = g, true }
}

// Request says what is asked for, in one or several parts, such as the path and the body of an
// HTTP request. A hash of it is stored with the result. A call with the same key and another
// request is refused with ErrMismatch. A call without Request is not compared, nor is one with
// it if the stored one had none.
func Request(parts ...[]byte) Option {
	sum := fingerprint(parts)
	return func(c *config) { c.request = sum }
}
