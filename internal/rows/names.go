package rows

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Names are locked as such; there are no rows behind them.
type Names struct {
	d     Dialect
	name  string // of the table, as the caller gave it
	slots *Table
}

// slots is how many rows the table has where names are locked by rows. They are
// there from the start: a row that is missing has no lock of its own, and
// transactions that insert it deadlock. 65,536 of them take 2 MB.
const slots = 1 << 16

var errNoNames = errors.New("the table of names is empty: call Create")

// NewNames describes the names that belong to a table.
func NewNames(d Dialect, table string) (*Names, error) {
	t, err := NewTable(d, table, []string{"slot"})
	if err != nil {
		return nil, err
	}
	return &Names{d, table, t}, nil
}

// Table is where there is something to lock.
func (n *Names) Table() *Table { return n.slots }

// Create makes the table, where the dialect needs one.
func (n *Names) Create(ctx context.Context, db Conn) error {
	if err := n.d.CreateNames(ctx, db, n); err != nil {
		return fmt.Errorf("create the table of names: %w", err)
	}
	return nil
}

// Lock locks a name.
func (n *Names) Lock(ctx context.Context, tx Conn, name string, c Config) error {
	err := errors.New("the name is empty")
	if name != "" {
		err = fail(ctx, n.d, tx, n.d.LockName(ctx, tx, n, name, c))
	}
	if err != nil {
		return fmt.Errorf("lock the name %q: %w", name, err)
	}
	return nil
}

// hash is a number for the name, other ones with another table.
func (n *Names) hash(name string) int64 {
	sum := sha256.Sum256([]byte(n.name + "\x00" + name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// slot is the name's row.
func (n *Names) slot(name string) int64 { return int64(uint64(n.hash(name)) % slots) }
