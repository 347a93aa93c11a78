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

// begin is a BEGIN IMMEDIATE through database/sql, which does not know it: a
// plain transaction that tries to get the write lock and, if that fails, begins
// again behind the back of its Tx. So it does not wait in SQLite itself, which
// would be for one busy_timeout, in many drivers even if the context ends. And
// since a waiter keeps its connection, the size of the pool bounds how many of a
// process try at a time.
func (d sqlite) begin(ctx context.Context, db Beginner, t *Table, wait time.Duration) (tx *sql.Tx, err error) {
	start := time.Now()
	for try := 0; ; try++ {
		if tx == nil {
			tx, err = db.BeginTx(ctx, nil)
		} else {
			err = beginAgain(ctx, tx)
		}
		if err == nil {
			err = d.writeNow(ctx, tx, t)
		}
		if err == nil {
			return tx, nil
		}
		pause := backoff(try, 20*time.Millisecond)
		left := wait - time.Since(start)
		switch {
		case sqliteMeaning(err) == nil:
		case wait == forever:
			err = sleep(ctx, pause)
		case left > 0:
			err = sleep(ctx, min(pause, left))
		default:
			err = &explained{ErrBusy, err}
		}
		if err != nil {
			break
		}
	}
	if tx != nil {
		_ = tx.Rollback() // an error of it would be about a transaction that has done nothing
	}
	if ctx.Err() != nil {
		err = ctx.Err() // else it says that there is no transaction any more
	}
	return nil, err
}

// beginAgain begins the same transaction anew, without what it has read.
func beginAgain(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "ROLLBACK"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "BEGIN")
	return err
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
