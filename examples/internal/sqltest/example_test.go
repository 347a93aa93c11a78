package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/rowlock"
)

// exampleDB is a database of SQLite in a folder that goes with it.
func exampleDB(statements ...string) (db *sql.DB, remove func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	db, err = sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "shop.db"))+"?_pragma=journal_mode(WAL)")
	for _, s := range statements {
		if err == nil {
			_, err = db.Exec(s)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	return db, func() {
		_ = db.Close()
		_ = os.RemoveAll(dir)
	}
}

// The same sale in two ways: with the row locked, and with the row written back
// only if nobody else has changed it.
func Example_rowlock() {
	ctx := context.Background()
	db, remove := exampleDB(
		"CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, version BIGINT NOT NULL)",
		"INSERT INTO items VALUES (42, 10, 1)")
	defer remove()
	table, err := rowlock.NewTable(rowlock.SQLite, "items", "id")
	if err != nil {
		log.Fatal(err)
	}
	items, err := rowlock.NewVersioned(table, "version")
	if err != nil {
		log.Fatal(err)
	}

	err = items.Do(ctx, db, 5, func(ctx context.Context, tx *sql.Tx) error {
		var stock int
		if err := items.LockAndRead(ctx, tx, 42, rowlock.Columns{"stock": &stock}); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE items SET stock = ?, version = version + 1 WHERE id = 42", stock-1)
		return err
	})
	fmt.Println("pessimistic:", err)

	err = items.Retry(ctx, 5, func(ctx context.Context) error {
		var stock int
		version, err := items.Read(ctx, db, 42, rowlock.Columns{"stock": &stock})
		if err != nil {
			return err
		}
		return items.Write(ctx, db, 42, version, rowlock.Columns{"stock": stock - 1})
	})
	fmt.Println("optimistic:", err)

	var stock int
	version, err := items.Read(ctx, db, 42, rowlock.Columns{"stock": &stock})
	fmt.Println("stock:", stock, "version:", version, err)
	// Output:
	// pessimistic: <nil>
	// optimistic: <nil>
	// stock: 8 version: 3 <nil>
}

// A write whose token is older than the row's is refused inside its transaction.
func Example_fence() {
	ctx := context.Background()
	db, remove := exampleDB(
		"CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, token BIGINT)",
		"INSERT INTO items VALUES (42, 10, NULL)")
	defer remove()
	tokens, err := fence.NewColumn(fence.SQLite, "items", "id", "token")
	if err != nil {
		log.Fatal(err)
	}
	sell := func(lease fence.Grant) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := tokens.Check(ctx, tx, 42, lease); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE items SET stock = stock - 1 WHERE id = 42"); err != nil {
			return err
		}
		return tx.Commit()
	}
	fmt.Println(sell(fence.Token(34)))
	err = sell(fence.Token(33)) // the holder before, late
	fmt.Println(errors.Is(err, fence.ErrStale), err)
	// Output:
	// <nil>
	// true fence items/42: stale token: 33, but 34 has been seen
}
