package rowlock

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Table is a table whose rows are locked by their key.
type Table struct {
	dialect   Dialect
	name      string // as the caller gave it
	table     string // quoted
	key       string // quoted
	hasRowSQL string
}

// NewTable describes a table, whose name may be qualified (schema.table), and
// the column of its primary key, or of another unique key.
func NewTable(d Dialect, table, key string) (*Table, error) {
	t := &Table{dialect: d, name: table}
	var err error
	if t.table, err = d.table(table); err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	if t.key, err = d.column(key); err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	t.hasRowSQL = fmt.Sprintf("SELECT 1 FROM %s WHERE %s = %s", t.table, t.key, d.param(1))
	return t, nil
}

// Option changes one call.
type Option func(*config)

type config struct{ wait time.Duration }

// forever is the wait of a call without the option Wait.
const forever = time.Duration(-1)

// Wait bounds the wait for a lock, after which the call fails with ErrBusy; 0
// and less fail at once. Without it, only the context bounds the wait.
func Wait(d time.Duration) Option {
	return func(c *config) { c.wait = max(d, 0) }
}

// Begin starts a transaction in which rows of the table can be locked. As with
// sql.DB.BeginTx, the transaction is rolled back when ctx ends.
//
// On SQLite it is a BEGIN IMMEDIATE: SQLite has no row locks, only one write
// lock for the database file, and Begin waits until the transaction has it. Then
// every read and write of the transaction is of the latest state, and nobody
// else writes to any table until it ends, not even if its process is stopped in
// the middle; readers go on. Waiters try again every
// few milliseconds, in no order, each with a connection of its own: the size of
// the pool bounds how many of a process do. A connection that is set to begin
// every transaction with BEGIN IMMEDIATE waits one busy_timeout at each try. Where the file is not in WAL mode, give each
// connection a busy_timeout: a commit there waits for readers, and a waiter is
// one for a moment.
func (t *Table) Begin(ctx context.Context, db Beginner, opts ...Option) (*sql.Tx, error) {
	c := config{wait: forever}
	for _, o := range opts {
		o(&c)
	}
	tx, err := t.dialect.begin(ctx, db, t, c.wait)
	if err != nil {
		return nil, fmt.Errorf("rowlock: begin: %w", t.dialect.explain(err))
	}
	return tx, nil
}

// Lock locks the row for the rest of the transaction, which is the caller's own
// or one of [Table.Begin]. What the transaction reads of it afterwards is the
// latest state, and stays it. A row that does not exist: sql.ErrNoRows. After
// another error the transaction is of no more use: roll it back.
//
// On SQLite the lock is the write lock of the database file. A transaction of
// Begin has it, and Lock only looks whether the row exists. Any other takes it
// now, and waits as long as the connection's busy_timeout, then fails with
// ErrBusy. If the transaction has read before and somebody else has written
// since, Lock fails at once, with ErrConflict (or ErrBusy, where the driver does
// not tell): so lock before reading.
func (t *Table) Lock(ctx context.Context, tx *sql.Tx, key any) error {
	found, err := t.dialect.lock(ctx, tx, t, key)
	if err != nil {
		return fmt.Errorf("rowlock: lock %s/%v: %w", t.name, key, t.dialect.explain(err))
	}
	if !found {
		return fmt.Errorf("rowlock: lock %s/%v: %w", t.name, key, sql.ErrNoRows)
	}
	return nil
}
