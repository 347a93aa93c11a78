package flashsale

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// The stock is one row, or some for the strategy that cuts it. No constraint
// helps: a stock may become wrong, and a buyer may get two orders. The log of
// orders is in the order of their commits.
const schema = `
	CREATE TABLE items (
		id      INTEGER PRIMARY KEY,
		stock   INTEGER NOT NULL,
		version INTEGER NOT NULL,
		token   INTEGER NOT NULL
	);
	CREATE TABLE orders (
		number INTEGER PRIMARY KEY AUTOINCREMENT,
		buyer  INTEGER NOT NULL,
		worker INTEGER NOT NULL,
		item   INTEGER NOT NULL
	)`

// store is the shop's database.
type store struct{ db *sql.DB }

// openStore opens the database, which is made if it does not exist.
func openStore(file string, connections int) (*store, error) {
	db, err := sql.Open("sqlite", fileURL("file", file)+
		"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return &store{db}, nil
}

func (s *store) close() error { return s.db.Close() }

// fill makes the tables and puts the stock into so many segments, as equal as
// can be, with the ids from 0.
func (s *store) fill(ctx context.Context, stock, segments int) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		for i := range segments {
			part := stock/segments + min(1, max(0, stock%segments-i))
			if _, err := tx.ExecContext(ctx, "INSERT INTO items (id, stock, version, token) VALUES (?, ?, 1, 0)", i, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// order is what a buyer gets.
type order struct {
	buyer, worker int
	item          int // the segment
}

// stock reads how many pieces an item has left.
func (s *store) stock(ctx context.Context, tx *sql.Tx, item int) (left int, err error) {
	err = tx.QueryRowContext(ctx, "SELECT stock FROM items WHERE id = ?", item).Scan(&left)
	return left, err
}

// setStock writes how many pieces an item has left.
func (s *store) setStock(ctx context.Context, tx *sql.Tx, item, left int) error {
	_, err := tx.ExecContext(ctx, "UPDATE items SET stock = ? WHERE id = ?", left, item)
	return err
}

func (s *store) place(ctx context.Context, tx *sql.Tx, o order) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO orders (buyer, worker, item) VALUES (?, ?, ?)", o.buyer, o.worker, o.item)
	return err
}

// transact runs f in a transaction of its own.
func (s *store) transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// fileURL is the URL of an absolute path, on Windows too (file:///C:/shop.db).
func fileURL(scheme, path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return fmt.Sprintf("%s://%s", scheme, (&url.URL{Path: path}).EscapedPath())
}
