package pgxrow

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/internal/rows"
	"github.com/interlock-go/interlock/rowlock"
)

// Table is a table whose rows are locked by their key.
type Table struct{ rows *rows.Table }

// NewTable describes a table, whose name may be qualified (schema.table), and
// the columns of its primary key, or of another unique key.
func NewTable(table string, key ...string) (*Table, error) {
	t, err := rows.NewTable(rows.PostgreSQL, table, key)
	if err != nil {
		return nil, wrap(err)
	}
	return &Table{t}, nil
}

// Begin starts a transaction of READ COMMITTED, in which what is read after a
// Lock is the latest state.
func (t *Table) Begin(ctx context.Context, db Beginner) (pgx.Tx, error) { return begin(ctx, db) }

// Do runs f in a transaction of Begin, and all of it again after an error that is
// [rowlock.Retryable]: see [rowlock.Table.Do].
func (t *Table) Do(ctx context.Context, db Beginner, calls int, f func(ctx context.Context, tx pgx.Tx) error) error {
	return do(ctx, db, calls, f)
}

// Retry calls f until it succeeds or fails for good: see [rowlock.Table.Retry].
func (t *Table) Retry(ctx context.Context, calls int, f func(context.Context) error) error {
	return retry(ctx, calls, f)
}

// Lock locks the row for the rest of the transaction: see [rowlock.Table.Lock]. A
// row that does not exist: pgx.ErrNoRows, which is sql.ErrNoRows too.
func (t *Table) Lock(ctx context.Context, tx pgx.Tx, key any, opts ...rowlock.Option) error {
	return t.LockAndRead(ctx, tx, key, nil, opts...)
}

// LockAndRead is Lock, and reads columns of the row in the same statement.
func (t *Table) LockAndRead(ctx context.Context, tx pgx.Tx, key any, into rowlock.Columns, opts ...rowlock.Option) error {
	return wrap(t.rows.Lock(ctx, conn{tx, tx}, rowsKey(key), rows.Columns(into), configOf(opts)))
}

// LockFree locks up to n of the rows that nobody else has locked, without
// waiting, and returns their keys: see [rowlock.Table.LockFree].
func (t *Table) LockFree(ctx context.Context, tx pgx.Tx, n int, keys []any, opts ...rowlock.Option) (locked []any, err error) {
	given := make([]any, len(keys))
	for i, key := range keys {
		given[i] = rowsKey(key)
	}
	free, err := t.rows.LockFree(ctx, conn{tx, tx}, n, given, configOf(opts))
	if err != nil {
		return nil, wrap(err)
	}
	for _, i := range free {
		locked = append(locked, keys[i])
	}
	return locked, nil
}
