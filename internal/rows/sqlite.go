package rows

import (
	"context"
	"errors"
	"strings"

	"github.com/interlock-go/interlock/internal/ident"
)

// SQLite is the dialect of SQLite.
var SQLite Dialect = sqlite{ident.SQLite}

type sqlite struct{ ident.Syntax }

// LockRow takes the write lock of the file and looks whether there is the row.
// How long that waits is the connection's busy_timeout: to change that for one
// statement would change it for good if the transaction ended in between, and
// its connection went back to the pool.
func (d sqlite) LockRow(ctx context.Context, tx Conn, r Row, c Config) error {
	if err := TakeWriteLock(ctx, tx, r.Table); err != nil {
		return err
	}
	return r.lock(ctx, tx, "")
}

func (d sqlite) LockName(ctx context.Context, tx Conn, n *Names, name string, c Config) error {
	return TakeWriteLock(ctx, tx, n.slots)
}

// CreateNames makes a table that stays empty: something has to be written to.
func (d sqlite) CreateNames(ctx context.Context, db Conn, n *Names) error {
	_, err := db.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+n.slots.table+" (slot INTEGER PRIMARY KEY)")
	return err
}

// TakeWriteLock runs a statement that writes nothing, but could.
func TakeWriteLock(ctx context.Context, tx Conn, t *Table) error {
	_, err := tx.Exec(ctx, "UPDATE "+t.table+" SET "+t.keys[0]+" = "+t.keys[0]+" WHERE 0")
	return err
}

// WriteNow gets the write lock or fails at once: SQLite runs no busy_timeout in
// a transaction that has read, since its reading may be what the other waits
// for.
func WriteNow(ctx context.Context, tx Conn, t *Table) error {
	if _, err := found(ctx, tx, "SELECT 1 FROM "+t.table+" LIMIT 0"); err != nil {
		return err
	}
	return TakeWriteLock(ctx, tx, t)
}

// Result codes of SQLite.
const (
	sqliteBusy         = 5
	sqliteLocked       = 6
	sqliteConstraint   = 19
	sqliteBusySnapshot = 5 | 2<<8
)

// Meaning knows ErrBusy and ErrConflict; SQLite has no deadlocks. Drivers have
// error types of their own; some tell the code by a method, all have SQLite's
// text.
func (sqlite) Meaning(err error) error {
	if err == nil {
		return nil
	}
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		switch code := coded.Code(); {
		case code == sqliteBusySnapshot:
			return ErrConflict
		case code&0xff == sqliteBusy, code&0xff == sqliteLocked:
			return ErrBusy
		}
		return nil
	}
	text := err.Error()
	if strings.Contains(text, "database is locked") || strings.Contains(text, "database table is locked") {
		return ErrBusy
	}
	return nil
}

func (sqlite) Ended(error) bool { return false }
