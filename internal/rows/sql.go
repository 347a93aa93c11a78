package rows

import (
	"context"
	"database/sql"
)

// SQL is a [Conn] of database/sql: a *sql.Tx, or what else can do as much as is asked of it.
type SQL struct {
	Q interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
	E interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}
}

// Tx is the Conn of a transaction.
func Tx(tx *sql.Tx) SQL { return SQL{tx, tx} }

func (c SQL) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	done, err := c.E.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (c SQL) Row(ctx context.Context, query string, args []any, into ...any) error {
	return c.Q.QueryRowContext(ctx, query, args...).Scan(into...)
}

func (c SQL) End() {
	for _, it := range []any{c.E, c.Q} {
		if tx, ok := it.(*sql.Tx); ok {
			_ = tx.Rollback() // the database has done it already
		}
	}
}
