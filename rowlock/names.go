package rowlock

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/interlock-go/interlock/internal/rows"
)

// DefaultNames is the usual name of the table of [Names].
const DefaultNames = "interlock_names"

// Names locks names: for what is no row, such as a row that does not exist yet, or
// all rows of some kind.
//
// Two names may share a lock. They then exclude each other too: never fewer, and
// at times more than need be wait. So a transaction that locks several names can
// deadlock with another one although their names differ; the database ends one
// of them, with ErrDeadlock.
//
//   - On PostgreSQL a name is an advisory lock: a number of 64 bits, made from
//     the name and the name of the table, which is not needed otherwise. Names
//     practically never share one, but other programs that use advisory locks in
//     this database may. One costs a bit of the memory that all locks of the
//     server share (max_locks_per_transaction).
//   - On MySQL and MariaDB, whose named locks belong to connections and not to
//     transactions, a name is one of 65,536 rows of a table, made by
//     [Names.Create]. They are never changed.
//   - On SQLite all names are one, the write lock of the file, as for rows. The
//     table stays empty.
type Names struct {
	rows  *rows.Names
	table *rows.Table
}

// NewNames describes the names that belong to a table, such as [DefaultNames].
// Names of different tables have nothing in common, but on SQLite.
func NewNames(d Dialect, table string) (*Names, error) {
	n, err := rows.NewNames(d.rows, table)
	if err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	return &Names{n, n.Table()}, nil
}

// Create makes the table if it does not exist. On PostgreSQL there is nothing to
// make.
func (n *Names) Create(ctx context.Context, db *sql.DB) error {
	if err := n.rows.Create(ctx, rows.SQL{Q: db, E: db}); err != nil {
		return fmt.Errorf("rowlock: %w", err)
	}
	return nil
}

// Lock locks a name for the rest of the transaction, as [Table.Lock] does with a
// row.
func (n *Names) Lock(ctx context.Context, tx *sql.Tx, name string, opts ...Option) error {
	if err := n.rows.Lock(ctx, rows.Tx(tx), name, configOf(opts)); err != nil {
		return fmt.Errorf("rowlock: %w", err)
	}
	return nil
}

// Begin starts a transaction in which names can be locked: [Table.Begin].
func (n *Names) Begin(ctx context.Context, db Beginner, opts ...Option) (*sql.Tx, error) {
	return begin(ctx, db, n.table, configOf(opts))
}

// Do runs f in a transaction of Begin: [Table.Do].
func (n *Names) Do(ctx context.Context, db Beginner, calls int, f func(ctx context.Context, tx *sql.Tx) error, opts ...Option) error {
	return do(ctx, db, n.table, calls, f, configOf(opts))
}
