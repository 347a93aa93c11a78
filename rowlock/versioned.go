package rowlock

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/interlock-go/interlock/internal/rows"
)

// Versioned is a table each of whose rows has a version: a column of 64-bit
// integers, NOT NULL, that every change of the row increases. Whoever writes to
// the rows without [Versioned.Write] must increase it as well.
type Versioned struct {
	Table
}

// NewVersioned describes the column of a table that holds the versions.
func NewVersioned(t *Table, column string) (*Versioned, error) {
	v, err := t.rows.WithVersion(column)
	if err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	return &Versioned{Table{v}}, nil
}

// FirstVersion is a version for a row that is about to be inserted. It is drawn
// at random from 1 to 2^52, so that a row that was deleted and inserted again
// under the same key is not taken for the one that was read before. The default
// of the column can do the same for those who do not know of versions:
//
//	PostgreSQL  DEFAULT (1 + floor(random() * 4503599627370496))
//	MySQL       DEFAULT (1 + floor(rand() * 4503599627370496))
//	SQLite      DEFAULT (1 + (random() & 4503599627370495))
func FirstVersion() int64 { return 1 + rand.Int64N(1<<52) }

// Read reads columns of a row together with the version that they belong to.
// Only what was read with the version is protected by it. A row that does not
// exist: sql.ErrNoRows.
func (v *Versioned) Read(ctx context.Context, q Queryer, key any, into Columns) (version int64, err error) {
	version, err = v.rows.Read(ctx, rows.SQL{Q: q}, rowsKey(key), rows.Columns(into))
	if err != nil {
		return 0, fmt.Errorf("rowlock: %w", err)
	}
	return version, nil
}

// Write changes columns of a row if its version is still the given one, and
// makes its version that plus 1. Otherwise, also if the row is gone, it changes
// nothing and returns ErrConflict. In a transaction the row stays locked until
// the end, so further writes of the transaction belong to the same change.
//
// After a conflict the row has to be read in a new transaction: in the same one,
// MySQL and MariaDB may go on showing the old version, and PostgreSQL may refuse.
//
// On SQLite, a transaction whose first statement is a Read may find its Write
// refused, with ErrConflict, whatever row somebody else has written to since:
// read outside of the transaction that writes.
func (v *Versioned) Write(ctx context.Context, e Execer, key any, version int64, values Columns) error {
	err := v.rows.Write(ctx, rows.SQL{E: e}, rowsKey(key), version, rows.Columns(values))
	if err != nil {
		return fmt.Errorf("rowlock: %w", err)
	}
	return nil
}

// Delete removes a row if its version is still the given one. Otherwise it is
// like a Write.
func (v *Versioned) Delete(ctx context.Context, e Execer, key any, version int64) error {
	if err := v.rows.Delete(ctx, rows.SQL{E: e}, rowsKey(key), version); err != nil {
		return fmt.Errorf("rowlock: %w", err)
	}
	return nil
}
