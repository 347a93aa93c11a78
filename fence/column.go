package fence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/interlock-go/interlock/internal/rows"
)

// Column keeps the largest token in a column of the very row that it protects:
// a 64-bit integer, 0 or NULL before the first check.
type Column struct {
	d                  Dialect
	table, raise, seen string
}

// NewColumn describes the column token of a table whose rows are named by the
// column key, which must be unique.
func NewColumn(d Dialect, table, key, token string) (*Column, error) {
	tab, err := d.Table(table)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	k, err := d.Column(key)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	tok, err := d.Column(token)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	return &Column{
		d:     d,
		table: table,
		raise: fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s = %s AND coalesce(%s, 0) <= %s",
			tab, tok, d.Param(1), k, d.Param(2), tok, d.Param(3)),
		seen: fmt.Sprintf("SELECT coalesce(%s, 0) FROM %s WHERE %s = %s", tok, tab, k, d.Param(1)) + d.latest(),
	}, nil
}

// Check refuses the grant with ErrStale if the row has seen a larger token, and
// otherwise stores the token, so that smaller ones are refused from the commit
// of tx on. The row stays locked until tx ends, so whatever tx writes to it is
// written under the token. A row that does not exist: sql.ErrNoRows.
func (c *Column) Check(ctx context.Context, tx *sql.Tx, key any, g Grant) error {
	return c.CheckIn(ctx, rows.Tx(tx), key, g)
}

// CheckIn is [Column.Check] in a transaction of another client of the database.
func (c *Column) CheckIn(ctx context.Context, tx Conn, key any, g Grant) error {
	token, err := token(g)
	if err != nil {
		return err
	}
	resource := fmt.Sprintf("%s/%v", c.table, key)
	switch n, err := tx.Exec(ctx, c.raise, token, key, token); {
	case err != nil:
		return fmt.Errorf("fence %s: %w", resource, err)
	case n > 1:
		return fmt.Errorf("fence %s: %d rows have this key; it must name one", resource, n)
	case n == 1 && c.d.counts():
		return nil
	}
	return verdict(ctx, tx, c.seen, key, resource, token)
}
