package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
)

// uncontended compares one acquire and release, without hand-over, with one
// transaction that updates one row of a file of the same settings.
func uncontended(ctx context.Context, r *report) error {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := interlock.Open(ctx, "sqlite:"+filepath.ToSlash(filepath.Join(dir, "locks.db")))
	if err != nil {
		return err
	}
	defer c.Close()
	d, err := sqlitelock.New(ctx, filepath.Join(dir, "locks.db"))
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Hour}) // nobody renews it here
	if err != nil {
		return err
	}
	row, err := newRow(filepath.Join(dir, "row.db"))
	if err != nil {
		return err
	}
	defer row.conn.Close()
	mem, err := interlock.Open(ctx, "mem:")
	if err != nil {
		return err
	}
	defer mem.Close()

	strict := c.Mutex("strict", interlock.StrictOrder())
	contenders := []contender{
		{"a transaction that updates one row", row.update, 5000},
		{"driver: Join + Leave", bare(s, "bare"), 5000},
		{"StrictOrder: Acquire + Release", pairs(strict), 5000},
		{"default: Acquire + Release", pairs(c.Mutex("default")), 5000},
		{"Sticky: Acquire + Release", pairs(c.Mutex("sticky", interlock.Sticky())), 500000},
		{"mem: Acquire + Release", pairs(mem.Mutex("a")), 500000},
	}
	times, err := compare(contenders)
	if err != nil {
		return err
	}
	r.header("sqlite", "time", "per second", "of the row's transaction")
	for i, c := range contenders {
		r.line(c.name, times[i].String(), perSecond(times[i]), ratio(times[i], times[0]))
	}
	return nil
}

func pairs(l *interlock.Lock) func(int) (time.Duration, error) {
	return func(n int) (time.Duration, error) {
		began := time.Now()
		for range n {
			lease, err := l.Acquire(context.Background())
			if err != nil {
				return 0, err
			}
			if err := lease.Release(); err != nil {
				return 0, err
			}
		}
		return time.Since(began), nil
	}
}

// row is a table of one row, in a file with the settings of sqlitelock.
type row struct {
	conn   *sqlite.Conn
	change *sqlite.Stmt
}

func newRow(path string) (*row, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL)
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{
		"PRAGMA synchronous=NORMAL",
		"CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER NOT NULL)",
		"INSERT INTO t VALUES (1, 0)",
	} {
		if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			return nil, err
		}
	}
	change, err := conn.Prepare("UPDATE t SET n = n + 1 WHERE id = 1")
	return &row{conn, change}, err
}

func (w *row) update(n int) (time.Duration, error) {
	began := time.Now()
	for range n {
		if _, err := w.change.Step(); err != nil {
			return 0, err
		}
		if err := w.change.Reset(); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
