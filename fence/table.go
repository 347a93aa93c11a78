package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

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
	create, raise, seen string
}

// NewTable describes the table of the given name, such as [DefaultTable].
func NewTable(d Dialect, name string) (*Table, error) {
	table, err := d.table(name)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	return &Table{
		create: d.create(table),
		raise:  d.raise(table),
		seen:   "SELECT token FROM " + table + " WHERE resource = " + d.param(1),
	}, nil
}

// Create makes the table if it does not exist.
func (t *Table) Create(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, t.create); err != nil {
		return fmt.Errorf("fence: create the table: %w", err)
	}
	return nil
}

// Check refuses the grant with ErrStale if the resource has seen a larger
// token, and otherwise makes the resource refuse all smaller ones from the
// commit of tx on. Until tx ends no other check of the resource succeeds, so
// whatever tx writes is written under the token.
//
// A resource is a text of 1 to 512 bytes; the name of its lock is a good one.
// All writers of a resource must use the same.
func (t *Table) Check(ctx context.Context, tx *sql.Tx, resource string, g Grant) error {
	if resource == "" || len(resource) > maxResource {
		return fmt.Errorf("fence: a resource has %d bytes, 1 to %d are allowed", len(resource), maxResource)
	}
	token, err := token(g)
	if err != nil {
		return err
	}
	done, err := tx.ExecContext(ctx, t.raise, resource, token)
	if err != nil {
		return fmt.Errorf("fence %s: %w", resource, err)
	}
	return verdict(done, resource, token, func() *sql.Row {
		return tx.QueryRowContext(ctx, t.seen, resource)
	})
}

// verdict says what became of a statement that stores the token unless a
// larger one is there.
func verdict(done sql.Result, resource string, token int64, seen func() *sql.Row) error {
	n, err := done.RowsAffected()
	switch {
	case err != nil:
		return fmt.Errorf("fence %s: %w", resource, err)
	case n == 1:
		return nil
	case n > 1:
		return fmt.Errorf("fence %s: %d rows have this key; it must name one", resource, n)
	}
	var larger int64
	if err := seen().Scan(&larger); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("fence: no row %s to keep the token in: %w", resource, err)
		}
		return fmt.Errorf("fence %s: %w", resource, err)
	}
	return &StaleError{Resource: resource, Token: uint64(token), Seen: uint64(larger)}
}
