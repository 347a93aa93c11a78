package fence

import (
	"context"
	"database/sql"
	"fmt"
)

// Column keeps the largest token in a column of the very row that it protects:
// a 64-bit integer, 0 or NULL before the first check.
type Column struct {
	table, raise, seen string
}

// NewColumn describes the column token of a table whose rows are named by the
// column key, which must be unique.
func NewColumn(d Dialect, table, key, token string) (*Column, error) {
	tab, err := d.table(table)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	k, err := d.column(key)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	tok, err := d.column(token)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	return &Column{
		table: table,
		raise: fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s = %s AND coalesce(%s, 0) <= %s",
			tab, tok, d.param(1), k, d.param(2), tok, d.param(3)),
		seen: fmt.Sprintf("SELECT coalesce(%s, 0) FROM %s WHERE %s = %s", tok, tab, k, d.param(1)),
	}, nil
}

// Check refuses the grant with ErrStale if the row has seen a larger token, and
// otherwise stores the token, so that smaller ones are refused from the commit
// of tx on. The row stays locked until tx ends, so whatever tx writes to it is
// written under the token. A row that does not exist: sql.ErrNoRows.
func (c *Column) Check(ctx context.Context, tx *sql.Tx, key any, g Grant) error {
	token, err := token(g)
	if err != nil {
		return err
	}
	resource := fmt.Sprintf("%s/%v", c.table, key)
	done, err := tx.ExecContext(ctx, c.raise, token, key, token)
	if err != nil {
		return fmt.Errorf("fence %s: %w", resource, err)
	}
	return verdict(done, resource, token, func() *sql.Row {
		return tx.QueryRowContext(ctx, c.seen, key)
	})
}
