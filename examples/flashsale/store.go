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

	"github.com/interlock-go/interlock/once"
)

// The stock of an item is one row, or some for the strategy that cuts it. No
// constraint helps: a stock may become wrong. That a buyer gets one order in a sale is a
// constraint, which a strategy may do without. A buyer who asks again does not run into it:
// package once remembers in a table of its own who has an order. The log of orders is in the
// order of their numbers, on SQLite that of their commits.
var schema = []string{`
	CREATE TABLE items (
		id      INTEGER PRIMARY KEY,
		stock   INTEGER NOT NULL,
		version BIGINT NOT NULL,
		token   BIGINT NOT NULL
	)`, `
	CREATE TABLE orders (
		number NUMBER,
		sale   VARCHAR(40) NOT NULL,
		buyer  INTEGER NOT NULL,
		worker INTEGER NOT NULL,
		item   INTEGER NOT NULL
	)`,
}

const onePiece = "CREATE UNIQUE INDEX orders_buyer ON orders (sale, buyer)"

// store is the shop's database.
type store struct {
	*database
	db         *sql.DB
	where      place
	sale       string // its name, in each order
	itemsTable string
	names      *strings.Replacer // of tables and types in statements
	done       *once.Table       // has the keys of the buyers who have an order
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
	s := &store{database: kind, db: db, where: p, sale: p.Sale, itemsTable: p.Prefix + "items"}
	s.names = strings.NewReplacer("items", s.itemsTable, "orders", p.Prefix+"orders",
		"NUMBER", kind.number)
	if s.done, err = once.NewTable(kind.once, p.Prefix+"done"); err != nil {
		return nil, errors.Join(err, db.Close())
	}
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

// fill makes the tables, loose or not, and divides the stock.
func (s *store) fill(ctx context.Context, parts []int, loose bool) error {
	statements := []string{schema[0] + s.suffix, schema[1] + s.suffix}
	if !loose {
		statements = append(statements, onePiece)
		if err := s.done.Create(ctx, s.db); err != nil {
			return err
		}
	}
	for _, statement := range statements {
		if _, err := s.db.ExecContext(ctx, s.sql(statement)); err != nil {
			return err
		}
	}
	return s.transact(ctx, func(tx *sql.Tx) error {
		for i, part := range parts {
			if _, err := tx.ExecContext(ctx, s.sql("INSERT INTO items (id, stock, version, token) VALUES (?, ?, 1, 0)"), i, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// divide makes n parts of a stock, as equal as can be.
func divide(stock, n int) []int {
	parts := make([]int, n)
	for i := range parts {
		parts[i] = stock/n + min(1, max(0, stock%n-i))
	}
	return parts
}

// cut makes n segments of a stock. The first has one piece, so that it runs dry at once.
func cut(stock, n int) []int {
	if n == 1 {
		return []int{stock}
	}
	return append([]int{1}, divide(stock-1, n-1)...)
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
	for _, table := range []string{"done", "orders", "items"} {
		if _, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+s.where.Prefix+table); err != nil {
			errs = append(errs, fmt.Errorf("table %s%s stays behind: %w", s.where.Prefix, table, err))
		}
	}
	return errors.Join(errs...)
}

// stock reads how many pieces an item has left.
func (s *store) stock(ctx context.Context, tx *sql.Tx, item int) (left int, err error) {
	err = tx.QueryRowContext(ctx, s.sql("SELECT stock FROM items WHERE id = ?"), item).Scan(&left)
	return left, err
}

// left reads how many pieces an item has left, in all its segments.
func (s *store) left(ctx context.Context, item, segments int) (left int, err error) {
	err = s.db.QueryRowContext(ctx, s.sql("SELECT sum(stock) FROM items WHERE id >= ? AND id < ?"), item*segments, (item+1)*segments).Scan(&left)
	return left, err
}

// setStock writes how many pieces an item has left.
func (s *store) setStock(ctx context.Context, tx *sql.Tx, item, left int) error {
	_, err := tx.ExecContext(ctx, s.sql("UPDATE items SET stock = ? WHERE id = ?"), left, item)
	return err
}

// takeOne takes a piece of an item in one statement, or returns errSoldOut.
func (s *store) takeOne(ctx context.Context, tx *sql.Tx, item int) error {
	r, err := tx.ExecContext(ctx, s.sql("UPDATE items SET stock = stock - 1 WHERE id = ? AND stock > 0"), item)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return errSoldOut
}

// place writes the order.
func (s *store) place(ctx context.Context, tx *sql.Tx, o order) error {
	_, err := tx.ExecContext(ctx, s.sql("INSERT INTO orders (sale, buyer, worker, item) VALUES (?, ?, ?, ?)"),
		s.sale, o.buyer, o.worker, o.item)
	return err
}

// key is what package once knows a buyer's order by. A second click of the buyer, and a
// click after a lost reply, have the same one.
func (s *store) key(buyer int) string { return fmt.Sprintf("%s/%d", s.sale, buyer) }

// Why a transaction is rolled back.
var (
	errHasOne  = errors.New("the buyer has an order")
	errSoldOut = errors.New("nothing is left")
)

// placeOnce takes a piece as take does, and writes the order. If the buyer has one already,
// it does neither and returns errHasOne. After an error the transaction must not be committed.
func (s *store) placeOnce(ctx context.Context, tx *sql.Tx, o order, take func() error) error {
	_, repeated, err := s.done.Do(ctx, tx, s.key(o.buyer), func() ([]byte, error) {
		if err := take(); err != nil {
			return nil, err
		}
		return nil, s.place(ctx, tx, o)
	})
	if err == nil && repeated {
		err = errHasOne
	}
	return err
}

// hasOne reports whether a buyer has an order.
func (s *store) hasOne(ctx context.Context, buyer int) (bool, error) {
	_, has, err := s.done.Lookup(ctx, s.db, s.key(buyer))
	return has, err
}

// pairs reads two numbers of each row.
func (s *store) pairs(ctx context.Context, query string) (all [][2]int, err error) {
	rows, err := s.db.QueryContext(ctx, s.sql(query))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var pair [2]int
		if err := rows.Scan(&pair[0], &pair[1]); err != nil {
			return nil, err
		}
		all = append(all, pair)
	}
	return all, rows.Err()
}

// orders counts all orders.
func (s *store) orders(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, s.sql("SELECT count(*) FROM orders")).Scan(&n)
	return n, err
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
