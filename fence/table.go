package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/internal/rows"
)

// Conn is a transaction of a client of the database other than database/sql, such as that of
// package pgxrow for pgx.
type Conn = rows.Conn

// DefaultTable is the usual name of a [Table].
const DefaultTable = "interlock_fence"

// maxResource is the longest name of a lock, so that it can serve as the name
// of the resource, and short enough for an index of every database.
const maxResource = 512

// Table keeps the largest token of each resource in a table of its own, in the
// database that holds the resources:
//
//	resource (primary key), token (64 bits)
type Table struct {
	d                   Dialect
	create, raise, seen string
}

// NewTable describes the table of the given name, such as [DefaultTable].
func NewTable(d Dialect, name string) (*Table, error) {
	table, err := d.Table(name)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	return &Table{
		d:      d,
		create: d.create(table),
		raise:  d.raise(table),
		seen:   "SELECT token FROM " + table + " WHERE resource = " + d.Param(1) + d.latest(),
	}, nil
}

// Create makes the table if it does not exist.
func (t *Table) Create(ctx context.Context, db *sql.DB) error {
	if err := rows.Create(ctx, db, t.create); err != nil {
		return fmt.Errorf("fence: create the table: %w", err)
	}
	return nil
}

// Check refuses the grant with ErrStale if the resource has seen a larger
// token, and otherwise makes the resource refuse all smaller ones from the
// commit of tx on. Until tx ends no other check of the resource succeeds, so
// whatever tx writes is written under the token.
//
// A resource is a text of 1 to 512 bytes of UTF-8 without a zero byte; the name of its lock is a good one.
// All writers of a resource must use the same.
func (t *Table) Check(ctx context.Context, tx *sql.Tx, resource string, g Grant) error {
	return t.CheckIn(ctx, rows.Tx(tx), resource, g)
}

// CheckIn is [Table.Check] in a transaction of another client of the database.
func (t *Table) CheckIn(ctx context.Context, tx Conn, resource string, g Grant) error {
	if err := rows.CheckText("resource", resource, maxResource); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	token, err := token(g)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, t.raise, resource, token, token)
	if err != nil {
		return fmt.Errorf("fence %s: %w", resource, err)
	}
	if t.d.counts() && n == 1 {
		return nil
	}
	return verdict(ctx, tx, t.seen, resource, resource, token)
}

// verdict looks which token a statement has left that stores one unless a larger
// one is there.
func verdict(ctx context.Context, tx Conn, look string, key any, resource string, token int64) error {
	var seen int64
	switch err := tx.Row(ctx, look, []any{key}, &seen); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("fence: no row %s to keep the token in: %w", resource, err)
	case err != nil:
		return fmt.Errorf("fence %s: %w", resource, err)
	case seen > token:
		return &StaleError{Resource: resource, Token: uint64(token), Seen: uint64(seen)}
	case seen < token:
		return fmt.Errorf("fence %s: the row holds %d and has not taken token %d: it was replaced meanwhile; begin the transaction again", resource, seen, token)
	}
	return nil
}
