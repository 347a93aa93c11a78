// Package rows is what packages rowlock and pgxrow have in common: the SQL that
// locks rows and names, and writes rows back by their versions, for every
// database and for every client of it.
package rows

import (
	"context"
	"errors"
	"time"
)

// What an error of the database may mean; rowlock says more.
var (
	ErrBusy     = errors.New("busy")
	ErrConflict = errors.New("row changed")
	ErrDeadlock = errors.New("deadlock")
)

// Conn is a transaction, or whatever else runs statements.
type Conn interface {
	// Exec returns how many rows the statement has changed.
	Exec(ctx context.Context, query string, args ...any) (int64, error)

	// Row reads the first row; without one it returns sql.ErrNoRows.
	Row(ctx context.Context, query string, args []any, into ...any) error

	// End rolls the transaction back, if it is one, so that nothing more can be
	// done in it.
	End()
}

// Columns are some columns of a row by their names.
type Columns map[string]any

// Key is the key of a row whose table has a key of several columns.
type Key []any

// Config is how a call locks.
type Config struct {
	Wait   time.Duration // 0: not at all
	Shared bool
}

// Forever is the Wait of a call that says nothing about it.
const Forever = time.Duration(-1)

// Dialect is the way of one database to lock rows.
type Dialect interface {
	Table(name string) (string, error)
	Column(name string) (string, error)
	Param(n int) string

	// LockRow locks a row until the end of the transaction, and reads it. Without
	// one it returns sql.ErrNoRows.
	LockRow(ctx context.Context, tx Conn, r Row, c Config) error

	// LockName locks a name likewise.
	LockName(ctx context.Context, tx Conn, n *Names, name string, c Config) error

	// CreateNames makes the table of names, where there has to be one.
	CreateNames(ctx context.Context, db Conn, n *Names) error

	// Meaning is ErrBusy, ErrConflict, ErrDeadlock or nil.
	Meaning(err error) error

	// Ended says whether this error means that the database has rolled the
	// whole transaction back by itself, and would commit further statements one
	// by one.
	Ended(err error) bool
}

// Row is a SELECT of one row, which can be followed by a locking clause.
type Row struct {
	Table  *Table
	Select string // SELECT … FROM … WHERE …
	Exists string // SELECT 1 FROM … WHERE …
	Args   []any
	Into   []any
}

func (r Row) lock(ctx context.Context, tx Conn, clause string) error {
	return tx.Row(ctx, r.Select+clause, r.Args, r.Into...)
}

// exists says whether there is such a row.
func (r Row) exists(ctx context.Context, tx Conn) (bool, error) {
	return found(ctx, tx, r.Exists, r.Args...)
}
