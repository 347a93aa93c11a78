package rowlock

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/interlock-go/interlock/internal/ident"
)

// SQLite is the dialect of SQLite, with any driver for database/sql.
var SQLite Dialect = sqlite{}

type sqlite struct{}

// SQLite takes a misspelt name in double quotes for a text, so that a version
// would be compared with that; backticks always mean a name.
const mark = '`'

func (sqlite) table(name string) (string, error)  { return ident.Table(name, mark) }
func (sqlite) column(name string) (string, error) { return ident.Column(name, mark) }
func (sqlite) param(int) string                   { return "?" }

// begin begins, tries to get the write lock, and rolls back and tries again if
// that fails: BEGIN IMMEDIATE through database/sql, which does not know it, and
// without its wait of one busy_timeout, which many drivers do not cut short when
// the context ends.
func (d sqlite) begin(ctx context.Context, db Beginner, t *Table, wait time.Duration) (*sql.Tx, error) {
	start := time.Now()
	for try := 0; ; try++ {
		tx, err := db.BeginTx(ctx, nil)
		if err == nil {
			if err = d.writeNow(ctx, tx, t); err == nil {
				return tx, nil
			}
			_ = tx.Rollback() // nothing to keep; the next transaction shows what is wrong
		}
		if sqliteMeaning(err) == nil {
			return nil, err
		}
		pause := backoff(try, 20*time.Millisecond)
		if wait != forever {
			left := wait - time.Since(start)
			if left <= 0 {
				return nil, &explained{ErrBusy, err}
			}
			pause = min(pause, left)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// writeNow gets the write lock or fails at once: SQLite runs no busy_timeout in
// a transaction that has read, since its reading may be what the other waits
// for.
func (sqlite) writeNow(ctx context.Context, tx *sql.Tx, t *Table) error {
	var none int
	err := tx.QueryRowContext(ctx, "SELECT 1 FROM "+t.table+" LIMIT 0").Scan(&none)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return takeWriteLock(ctx, tx, t)
}

func (sqlite) lock(ctx context.Context, tx *sql.Tx, t *Table, key any) (bool, error) {
	if err := takeWriteLock(ctx, tx, t); err != nil {
		return false, err
	}
	var one int
	err := tx.QueryRowContext(ctx, t.hasRowSQL, key).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// takeWriteLock runs a statement that writes nothing, but could.
func takeWriteLock(ctx context.Context, tx *sql.Tx, t *Table) error {
	_, err := tx.ExecContext(ctx, "UPDATE "+t.table+" SET "+t.key+" = "+t.key+" WHERE 0")
	return err
}

func (sqlite) explain(err error) error {
	if meaning := sqliteMeaning(err); meaning != nil && !errors.Is(err, meaning) {
		return &explained{meaning, err}
	}
	return err
}

// Result codes of SQLite.
const (
	sqliteBusy         = 5
	sqliteLocked       = 6
	sqliteBusySnapshot = 5 | 2<<8
)

// sqliteMeaning returns ErrBusy, ErrConflict or nil. Drivers have error types of
// their own; some tell the code by a method, all have SQLite's text.
func sqliteMeaning(err error) error {
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
