package flashsale

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// The stock is one row, or some for the strategy that cuts it. No constraint
// helps: a stock may become wrong, and a buyer may get two orders. The log of
// orders is in the order of their numbers, on SQLite that of their commits.
var schema = []string{`
	CREATE TABLE items (
		id      INTEGER PRIMARY KEY,
		stock   INTEGER NOT NULL,
		version BIGINT NOT NULL,
		token   BIGINT NOT NULL
	)`, `
	CREATE TABLE orders (
		number NUMBER,
		buyer  INTEGER NOT NULL,
		worker INTEGER NOT NULL,
		item   INTEGER NOT NULL
	)`,
}

// store is the shop's database.
type store struct {
	*database
	db         *sql.DB
	where      place
	itemsTable string
	names      *strings.Replacer // of tables and types in statements
}

// openStore opens the database; a file is made if it does not exist.
func openStore(ctx context.Context, p place, connections int) (*store, error) {
	kind, err := p.kind()
	if err != nil {
		return nil, err
	}
	db, err := kind.open(p)
	if err != nil {
		return nil, fmt.Errorf("open %v: %w", p, err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	s := &store{database: kind, db: db, where: p, itemsTable: p.Prefix + "items"}
	s.names = strings.NewReplacer("items", s.itemsTable, "orders", p.Prefix+"orders", "NUMBER", kind.number)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reach %v: %w", p, p.hide(err)), db.Close())
	}
	return s, nil
}

func (s *store) close() error { return s.db.Close() }

// sql writes a statement for this database and its tables.
func (s *store) sql(query string) string {
	query = s.names.Replace(query)
	for n := 1; s.numbered && strings.Contains(query, "?"); n++ {
		query = strings.Replace(query, "?", fmt.Sprintf("$%d", n), 1)
	}
	return query
}

// fill makes the tables and puts the stock into so many segments, as equal as
// can be, with the ids from 0.
func (s *store) fill(ctx context.Context, stock, segments int) error {
	for _, table := range schema {
		if _, err := s.db.ExecContext(ctx, s.sql(table)+s.suffix); err != nil {
			return err
		}
	}
	return s.transact(ctx, func(tx *sql.Tx) error {
		for i := range segments {
			part := stock/segments + min(1, max(0, stock%segments-i))
			if _, err := tx.ExecContext(ctx, s.sql("INSERT INTO items (id, stock, version, token) VALUES (?, ?, 1, 0)"), i, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// remove takes the tables away, from a server; files go with their folder. The
// transactions of workers that were killed may keep it waiting for a moment.
func (s *store) remove(ctx context.Context) error {
	if s.where.URL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, table := range []string{"orders", "items"} {
		if _, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+s.where.Prefix+table); err != nil {
			errs = append(errs, fmt.Errorf("table %s%s stays behind: %w", s.where.Prefix, table, err))
		}
	}
	return errors.Join(errs...)
}

// order is what a buyer gets.
type order struct {
	buyer, worker int
	item          int // the segment
}

// stock reads how many pieces an item has left.
func (s *store) stock(ctx context.Context, tx *sql.Tx, item int) (left int, err error) {
	err = tx.QueryRowContext(ctx, s.sql("SELECT stock FROM items WHERE id = ?"), item).Scan(&left)
	return left, err
}

// setStock writes how many pieces an item has left.
func (s *store) setStock(ctx context.Context, tx *sql.Tx, item, left int) error {
	_, err := tx.ExecContext(ctx, s.sql("UPDATE items SET stock = ? WHERE id = ?"), left, item)
	return err
}

func (s *store) place(ctx context.Context, tx *sql.Tx, o order) error {
	_, err := tx.ExecContext(ctx, s.sql("INSERT INTO orders (buyer, worker, item) VALUES (?, ?, ?)"), o.buyer, o.worker, o.item)
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
