package sqlitelock

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

// tx is a transaction that writes.
type tx struct {
	conn
	d       *Driver
	now     moment
	letters []letter // sent after the commit
	unsent  []string // queues whose grants go on in another exchange
	lasting bool     // it must outlast a power loss
	commits bool     // false as long as it is certain that nothing was committed
}

// durable makes a commit outlast a power loss.
const (
	fast    = false
	durable = true
)

var errClosed = driver.Permanent(errors.New("sqlite: the driver is closed"))

// change is an exchange that writes. Everything that f does is committed, or
// nothing.
func (d *Driver) change(ctx context.Context, sync bool, f func(*tx) error) error {
	_, err := d.changes(ctx, sync, f)
	return err
}

// changes also reports whether it is open if anything was committed, which it is
// only after an error of the commit itself.
func (d *Driver) changes(ctx context.Context, sync bool, f func(*tx) error) (open bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	t := &tx{d: d}
	if err := d.transact(ctx, sync, t, f); err != nil {
		return t.commits, err
	}
	d.send(t.letters)
	for len(t.unsent) > 0 {
		q := t.unsent[0]
		t = &tx{d: d}
		err := d.transact(d.ctx, fast, t, func(t *tx) error { return t.resume(q) })
		d.send(t.letters)
		if err != nil {
			break // Renew of those who wait goes on
		}
	}
	return false, nil
}

func (d *Driver) transact(ctx context.Context, sync bool, t *tx, f func(*tx) error) error {
	if d.closed.Load() {
		return errClosed
	}
	if err := d.file.turn.take(ctx); err != nil {
		if d.closed.Load() {
			return errClosed
		}
		return d.file.stuck(err)
	}
	defer d.file.turn.pass()
	if d.closed.Load() {
		return errClosed
	}
	if err := d.file.same(); err != nil {
		return err
	}
	d.exchanges.Add(1)
	c := d.file.write
	t.conn = c
	if sync {
		if err := c.exec("PRAGMA synchronous = FULL"); err != nil {
			return d.file.explain(err)
		}
		defer c.exec("PRAGMA synchronous = NORMAL")
	}
	if err := d.begin(ctx, c); err != nil {
		return err
	}
	t.now = d.clock.now()
	err := f(t)
	if err == nil {
		err = t.addressed()
	}
	if err == nil {
		t.commits = true
		if err = c.exec("COMMIT"); err == nil {
			if t.lasting && !sync {
				_ = c.exec("PRAGMA wal_checkpoint") // which synchronises
			}
			return nil
		}
	}
	if !c.AutocommitEnabled() {
		if e := c.exec("ROLLBACK"); e != nil {
			err = errors.Join(err, e)
		}
	}
	t.letters, t.unsent = nil, nil
	return d.file.explain(err)
}

// begin takes SQLite's own lock, which is free unless something else than a
// driver uses the file.
func (d *Driver) begin(ctx context.Context, c conn) error {
	err := c.exec("BEGIN IMMEDIATE")
	if err == nil {
		return nil
	}
	return d.file.retry(ctx, func() error { return c.exec("BEGIN IMMEDIATE") })
}

// view is an exchange that reads one state of the file.
func (d *Driver) view(ctx context.Context, f func(c conn, now moment) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case d.file.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.file.reading }()
	if d.closed.Load() {
		return errClosed
	}
	d.exchanges.Add(1)
	c := d.file.read
	return d.file.retry(ctx, func() error {
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		err := f(c, d.clock.now())
		if e := c.exec("ROLLBACK"); err == nil {
			err = e
		}
		return err
	})
}

// due returns the earliest moment at which something ends unless it is renewed.
func (c conn) due() (moment, error) {
	due := never
	for _, sql := range []string{
		"SELECT min(expires) FROM session",
		"SELECT min(ends) FROM ticket WHERE ends IS NOT NULL",
	} {
		if _, err := c.one(sql, func(s *sqlite.Stmt) {
			if !s.ColumnIsNull(0) {
				due = min(due, moment(s.ColumnInt64(0)))
			}
		}); err != nil {
			return 0, err
		}
	}
	return due, nil
}

// countOpened takes note of how many sessions were ever opened.
func (t *tx) countOpened() error {
	_, err := t.one("SELECT opened FROM file", func(s *sqlite.Stmt) { t.d.opened.Store(s.ColumnInt64(0)) })
	return err
}

const never = moment(1<<63 - 1)
