package pgxrow

import (
	"context"

	"github.com/interlock-go/interlock/internal/rows"
	"github.com/interlock-go/interlock/rowlock"
)

// Versioned is a table each of whose rows has a version: a column of the type
// bigint, NOT NULL, that every change of the row increases: see
// [rowlock.Versioned]. For new rows there is [rowlock.FirstVersion].
type Versioned struct {
	Table
}

// NewVersioned describes the column of a table that holds the versions.
func NewVersioned(t *Table, column string) (*Versioned, error) {
	v, err := t.rows.WithVersion(column)
	if err != nil {
		return nil, wrap(err)
	}
	return &Versioned{Table{v}}, nil
}

// Read reads columns of a row together with the version that they belong to. A
// row that does not exist: pgx.ErrNoRows.
func (v *Versioned) Read(ctx context.Context, q Queryer, key any, into rowlock.Columns) (version int64, err error) {
	version, err = v.rows.Read(ctx, conn{q: q}, rowsKey(key), rows.Columns(into))
	return version, wrap(err)
}

// Write changes columns of a row if its version is still the given one, and
// makes its version that plus 1. Otherwise, also if the row is gone, it changes
// nothing and returns [rowlock.ErrConflict].
func (v *Versioned) Write(ctx context.Context, e Execer, key any, version int64, values rowlock.Columns) error {
	return wrap(v.rows.Write(ctx, conn{e: e}, rowsKey(key), version, rows.Columns(values)))
}

// Delete removes a row if its version is still the given one. Otherwise it is
// like a Write.
func (v *Versioned) Delete(ctx context.Context, e Execer, key any, version int64) error {
	return wrap(v.rows.Delete(ctx, conn{e: e}, rowsKey(key), version))
}
