package rowlock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/rowlock"
)

// A piece is sold if there is one. Others who want to sell the same item wait, for
// two seconds at most.
func ExampleTable_LockAndRead() {
	items, err := rowlock.NewTable(rowlock.PostgreSQL, "items", "id")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = func(ctx context.Context, db *sql.DB, id int) error {
		return items.Do(ctx, db, 5, func(ctx context.Context, tx *sql.Tx) error {
			var stock int
			err := items.LockAndRead(ctx, tx, id, rowlock.Columns{"stock": &stock}, rowlock.Wait(2*time.Second))
			if err != nil {
				return err
			}
			if stock == 0 {
				return errors.New("sold out")
			}
			_, err = tx.ExecContext(ctx, "UPDATE items SET stock = $1 WHERE id = $2", stock-1, id)
			return err
		})
	}
}

// A worker takes up to three jobs that no other worker is at.
func ExampleTable_LockFree() {
	jobs, err := rowlock.NewTable(rowlock.MySQL, "jobs", "id")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = func(ctx context.Context, db *sql.DB, candidates []any) error {
		return jobs.Do(ctx, db, 5, func(ctx context.Context, tx *sql.Tx) error {
			mine, err := jobs.LockFree(ctx, tx, 3, candidates)
			if err != nil {
				return err
			}
			for _, id := range mine {
				// Another worker may have finished it before it was locked here:
				// the condition is looked at again under the lock.
				if _, err := tx.ExecContext(ctx, "UPDATE jobs SET done = 1 WHERE id = ? AND done = 0", id); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// A row is shown to a person, who changes it minutes later, unless somebody else
// has been faster.
func ExampleVersioned() {
	table, err := rowlock.NewTable(rowlock.SQLite, "articles", "id")
	if err != nil {
		fmt.Println(err)
		return
	}
	articles, err := rowlock.NewVersioned(table, "version")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = func(ctx context.Context, db *sql.DB, id int, edit func(text string) string) error {
		var text string
		version, err := articles.Read(ctx, db, id, rowlock.Columns{"text": &text})
		if err != nil {
			return err
		}
		err = articles.Write(ctx, db, id, version, rowlock.Columns{"text": edit(text)})
		if errors.Is(err, rowlock.ErrConflict) {
			return errors.New("somebody else has changed it meanwhile")
		}
		return err
	}
}

// Nobody else looks whether the customer exists until this transaction ends.
func ExampleNames() {
	names, err := rowlock.NewNames(rowlock.PostgreSQL, rowlock.DefaultNames)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = func(ctx context.Context, db *sql.DB, email string) error {
		return names.Do(ctx, db, 5, func(ctx context.Context, tx *sql.Tx) error {
			if err := names.Lock(ctx, tx, "customer/"+email); err != nil {
				return err
			}
			var n int
			err := tx.QueryRowContext(ctx, "SELECT count(*) FROM customers WHERE email = $1", email).Scan(&n)
			if err != nil || n > 0 {
				return err
			}
			_, err = tx.ExecContext(ctx, "INSERT INTO customers (email) VALUES ($1)", email)
			return err
		})
	}
}
