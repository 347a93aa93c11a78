package once

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/rows"
)

// batch is how many rows one transaction of a sweep deletes.
const batch = 500

// Sweep deletes the results that are older than age, by the database's clock, and returns how many
// it has deleted, also with an error. An age counts in whole seconds, rounded up; less than one
// second: ErrInvalid.
//
// Whoever asks with a swept key does the work again. Sweep from time to time, in one process or in
// several; a sweep that ends early has deleted a part.
func (t *Table) Sweep(ctx context.Context, db *sql.DB, age time.Duration) (deleted int64, err error) {
	if age < time.Second {
		return 0, driver.Invalid(fmt.Errorf("once: sweep: an age of %v; at least a second is needed", age))
	}
	seconds := int64((age-1)/time.Second) + 1
	for {
		keys, err := t.olderThan(ctx, db, seconds)
		var n int64
		if err == nil && len(keys) > 0 {
			err = rows.Retry(ctx, t.d, 5, func(ctx context.Context) (err error) {
				n, err = t.delete(ctx, db, keys, seconds)
				return err
			})
			deleted += n
		}
		if err != nil {
			return deleted, fmt.Errorf("once: sweep: %w", err)
		}
		if len(keys) < batch {
			return deleted, nil
		}
	}
}

// olderThan returns keys of old rows, in an order that all sweeps have.
func (t *Table) olderThan(ctx context.Context, db *sql.DB, seconds int64) (keys []string, err error) {
	found, err := db.QueryContext(ctx, t.older, seconds)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var key string
		if err := found.Scan(&key); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, found.Err()
}

// delete deletes rows one by one: InnoDB locks what else a statement looks at, such as the row of
// a call that is under way.
func (t *Table) delete(ctx context.Context, db *sql.DB, keys []string, seconds int64) (deleted int64, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // nothing after a commit
	one, err := tx.PrepareContext(ctx, t.deleteOne)
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		done, err := one.ExecContext(ctx, key, seconds)
		if err != nil {
			return 0, err
		}
		n, err := done.RowsAffected()
		if err != nil {
			return 0, err
		}
		deleted += n
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	return deleted, nil
}
