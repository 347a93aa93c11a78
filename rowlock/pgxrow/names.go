package pgxrow

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/internal/rows"
	"github.com/interlock-go/interlock/rowlock"
)

// Names locks names: advisory locks of PostgreSQL, the same ones as those of
// [rowlock.Names] with the same table. There is no such table.
type Names struct{ rows *rows.Names }

// NewNames describes the names that belong to a table, such as
// [rowlock.DefaultNames].
func NewNames(table string) (*Names, error) {
	n, err := rows.NewNames(rows.PostgreSQL, table)
	if err != nil {
		return nil, wrap(err)
	}
	return &Names{n}, nil
}

// Lock locks a name for the rest of the transaction.
func (n *Names) Lock(ctx context.Context, tx pgx.Tx, name string, opts ...rowlock.Option) error {
	return wrap(n.rows.Lock(ctx, conn{tx, tx}, name, configOf(opts)))
}

// Do runs f in a transaction, and all of it again after an error that is
// [rowlock.Retryable]: see [rowlock.Table.Do].
func (n *Names) Do(ctx context.Context, db Beginner, calls int, f func(ctx context.Context, tx pgx.Tx) error) error {
	return do(ctx, db, calls, f)
}
