package rowlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Versioned is a table each of whose rows has a version: a column of 64-bit
// integers, NOT NULL, that every change of the row increases. Whoever writes to
// the rows without [Versioned.Write] must increase it as well.
type Versioned struct {
	Table
	version string // quoted
}

// NewVersioned describes a table, whose name may be qualified (schema.table),
// the column of its unique key, and the column of the version.
func NewVersioned(d Dialect, table, key, version string) (*Versioned, error) {
	t, err := NewTable(d, table, key)
	if err != nil {
		return nil, err
	}
	v := &Versioned{Table: *t}
	if v.version, err = d.column(version); err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	return v, nil
}

// FirstVersion is a version for a row that is about to be inserted. It is drawn
// at random from 1 to 2^52, so that a row that was deleted and inserted again
// under the same key is not taken for the one that was read before.
func FirstVersion() int64 { return 1 + rand.Int64N(1<<52) }

// Columns are some columns of a row by their names: for [Versioned.Read] with
// pointers to scan into, for [Versioned.Write] with their new values.
type Columns map[string]any

// Read reads columns of a row together with the version that they belong to.
// Only what was read with the version is protected by it. A row that does not
// exist: sql.ErrNoRows.
func (v *Versioned) Read(ctx context.Context, q Queryer, key any, into Columns) (version int64, err error) {
	names, dest, err := v.split(into)
	if err != nil {
		return 0, fmt.Errorf("rowlock: read %s/%v: %w", v.name, key, err)
	}
	query := fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s",
		strings.Join(append(names, v.version), ", "), v.table, v.key, v.dialect.param(1))
	if err := q.QueryRowContext(ctx, query, key).Scan(append(dest, &version)...); err != nil {
		return 0, fmt.Errorf("rowlock: read %s/%v: %w", v.name, key, v.dialect.explain(err))
	}
	return version, nil
}

// Write changes columns of a row if its version is still the given one, and
// makes its version that plus 1. Otherwise, also if the row is gone, it changes
// nothing and returns ErrConflict. In a transaction the row stays locked until
// the end, so further writes of the transaction belong to the same change.
//
// On SQLite, a transaction whose first statement is a Read may find its Write
// refused, with ErrConflict, whatever row somebody else has written to since:
// read outside of the transaction that writes.
func (v *Versioned) Write(ctx context.Context, e Execer, key any, version int64, values Columns) error {
	names, args, err := v.split(values)
	if err != nil {
		return fmt.Errorf("rowlock: write %s/%v: %w", v.name, key, err)
	}
	var set strings.Builder
	for i, name := range names {
		fmt.Fprintf(&set, "%s = %s, ", name, v.dialect.param(i+1))
	}
	query := fmt.Sprintf("UPDATE %s SET %s%s = %s + 1 WHERE %s = %s AND %s = %s", v.table, &set, v.version, v.version,
		v.key, v.dialect.param(len(names)+1), v.version, v.dialect.param(len(names)+2))
	done, err := e.ExecContext(ctx, query, append(args, key, version)...)
	if err != nil {
		return fmt.Errorf("rowlock: write %s/%v: %w", v.name, key, v.dialect.explain(err))
	}
	switch n, err := done.RowsAffected(); {
	case err != nil:
		return fmt.Errorf("rowlock: write %s/%v: %w", v.name, key, err)
	case n == 0:
		return fmt.Errorf("rowlock: write %s/%v: %w: version %d does not stand any more", v.name, key, ErrConflict, version)
	case n > 1:
		return fmt.Errorf("rowlock: write %s/%v: %d rows have this key; it must name one", v.name, key, n)
	}
	return nil
}

// split returns the quoted names in a fixed order, so that databases see the
// same statement each time, and what belongs to them.
func (v *Versioned) split(c Columns) (names []string, values []any, err error) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		quoted, err := v.dialect.column(name)
		if err != nil {
			return nil, nil, err
		}
		if strings.EqualFold(quoted, v.version) {
			return nil, nil, errors.New("the version is not among the columns: it is read and written by itself")
		}
		names, values = append(names, quoted), append(values, c[name])
	}
	return names, values, nil
}
