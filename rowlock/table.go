package rowlock

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/interlock-go/interlock/internal/rows"
)

// Table is a table whose rows are locked by their key.
type Table struct{ rows *rows.Table }

// NewTable describes a table, whose name may be qualified (schema.table), and
// the columns of its primary key, or of another unique key.
func NewTable(d Dialect, table string, key ...string) (*Table, error) {
	t, err := rows.NewTable(d.rows, table, key)
	if err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	return &Table{t}, nil
}

// Lock locks the row for the rest of the transaction, which is the caller's own
// or one of [Table.Begin]. Nobody else can change the row then. A row that does
// not exist: sql.ErrNoRows.
//
// Lock before reading. What was read before may be outdated, and on MySQL and
// MariaDB even what a plain SELECT reads afterwards: in a transaction of
// REPEATABLE READ, their default, all such reads are of the moment of the first.
// [Table.LockAndRead] always reads the latest state; transactions of Begin and Do
// are READ COMMITTED. PostgreSQL fails with ErrConflict where a transaction of
// REPEATABLE READ or SERIALIZABLE would have to read two states.
//
// On MySQL and MariaDB, in REPEATABLE READ, a row that does not exist leaves a
// lock on the gap where it would be: others cannot insert there until the
// transaction ends, and two that both looked and then insert deadlock.
//
// SQLite has no row locks: the lock is the write lock of the database file, for
// every row and table, until the transaction ends. A transaction of Begin has
// it, and Lock only looks whether the row exists. Any other takes it now, and
// waits as long as the connection's busy_timeout, then fails with ErrBusy. If the
// transaction has read before and somebody else has written since, Lock fails at
// once, with ErrConflict (or ErrBusy, where the driver does not tell).
func (t *Table) Lock(ctx context.Context, tx *sql.Tx, key any, opts ...Option) error {
	return t.LockAndRead(ctx, tx, key, nil, opts...)
}

// LockAndRead is Lock, and reads columns of the row in the same statement.
func (t *Table) LockAndRead(ctx context.Context, tx *sql.Tx, key any, into Columns, opts ...Option) error {
	err := t.rows.Lock(ctx, rows.Tx(tx), rowsKey(key), rows.Columns(into), configOf(opts))
	if err != nil {
		return fmt.Errorf("rowlock: %w", err)
	}
	return nil
}

// LockFree locks up to n of the rows that nobody else has locked, without
// waiting, and returns their keys: it tries the keys in their order, leaves out
// what is locked or does not exist, and stops when it has n. It suits workers who
// each take some of many jobs, and buyers of any free seat.
//
// On SQLite it is a Lock of the first n rows that exist.
func (t *Table) LockFree(ctx context.Context, tx *sql.Tx, n int, keys []any, opts ...Option) (locked []any, err error) {
	given := make([]any, len(keys))
	for i, key := range keys {
		given[i] = rowsKey(key)
	}
	free, err := t.rows.LockFree(ctx, rows.Tx(tx), n, given, configOf(opts))
	if err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	for _, i := range free {
		locked = append(locked, keys[i])
	}
	return locked, nil
}

// rowsKey lets a Key be known as such.
func rowsKey(key any) any {
	if parts, ok := key.(Key); ok {
		return rows.Key(parts)
	}
	return key
}
