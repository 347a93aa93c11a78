package rowlock

import (
	"context"
	"database/sql"
)

// conn is what package rows needs of database/sql.
type conn struct {
	q Queryer
	e Execer
}

func connOf(tx *sql.Tx) conn { return conn{tx, tx} }

func (c conn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	done, err := c.e.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (c conn) Row(ctx context.Context, query string, args []any, into ...any) error {
	return c.q.QueryRowContext(ctx, query, args...).Scan(into...)
}

func (c conn) End() {
	for _, it := range []any{c.e, c.q} {
		if tx, ok := it.(*sql.Tx); ok {
			_ = tx.Rollback() // the database has done it already
		}
	}
}
