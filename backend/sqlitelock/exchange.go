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

// how an exchange that writes is done.
type how struct {
	in    lane
	alone bool // in a transaction of its own
	sync  bool // its commit outlasts a power loss
}

var (
	fast    = how{in: coming, alone: true}
	durable = how{in: coming, alone: true, sync: true}
	join    = how{in: coming}
	quit    = how{in: leaving}
	keep    = how{in: keeping}
)

var errClosed = driver.Permanent(errors.New("sqlite: the driver is closed"))

// change is an exchange that writes. Everything that f does is committed, or
// nothing.
func (d *Driver) change(ctx context.Context, h how, f func(*tx) error) error {
	_, err := d.changes(ctx, h, f)
	return err
}

// changes also reports whether it is open if anything was committed, which it is
// only after an error of the commit itself.
func (d *Driver) changes(ctx context.Context, h how, f func(*tx) error) (open bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	t := &tx{d: d}
	err = d.transact(ctx, h, t, f)
	open = t.commits && err != nil
	d.send(t.letters) // of others, too, if this one has failed
	for len(t.unsent) > 0 {
		q := t.unsent[0]
		t = &tx{d: d}
		e := d.transact(d.ctx, keep, t, func(t *tx) error { return t.resume(q) })
		d.send(t.letters)
		if e != nil {
			break // Renew of those who wait goes on
		}
	}
	return open, err
}

// transact does f when it is its turn, and with it what others of this process wait to
// do. If somebody else has done f, that one sends its letters too.
func (d *Driver) transact(ctx context.Context, h how, t *tx, f func(*tx) error) error {
	if d.closed.Load() {
		return errClosed
	}
	own := &job{f: f}
	offered := own
	if h.alone {
		offered = nil
	}
	mine, err := d.file.turn.take(ctx, h.in, offered)
	if !mine {
		t.commits = own.open
		return own.err
	}
	if err != nil {
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
	if h.sync {
		if err := c.exec("PRAGMA synchronous = FULL"); err != nil {
			return d.file.explain(err)
		}
		defer c.exec("PRAGMA synchronous = NORMAL")
	}
	if err := d.begin(ctx, c); err != nil {
		return err
	}
	t.now = d.clock.now()
	all := []*job{own}
	if !h.alone {
		first, rest := d.file.turn.gather(h.in)
		all = append(append(first, own), rest...)
	}
	err = t.do(all)
	if err == nil {
		err = t.addressed()
	}
	if err == nil {
		t.commits = true
		err = c.exec("COMMIT")
	}
	if err == nil && t.lasting && !h.sync {
		_ = c.exec("PRAGMA wal_checkpoint") // which synchronises
	}
	if !c.AutocommitEnabled() {
		if e := c.exec("ROLLBACK"); e != nil {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		t.letters, t.unsent = nil, nil
	}
	for _, j := range all {
		if j.err == nil && err != nil {
			j.err, j.open = err, t.commits
		}
		j.err = d.file.explain(j.err)
	}
	t.commits = own.open
	d.file.turn.finish(all, own)
	return own.err
}

// errNone: none of the jobs has changed anything.
var errNone = errors.New("nothing to commit")

// do does jobs, each entirely or not at all. An error is that of the transaction.
func (t *tx) do(all []*job) error {
	if len(all) == 1 {
		return all[0].f(t)
	}
	done := 0
	for _, j := range all {
		letters, unsent := t.letters, t.unsent
		t.letters, t.unsent = nil, nil
		if err := t.exec("SAVEPOINT job"); err != nil {
			return err
		}
		if j.err = j.f(t); j.err == nil {
			done++
			t.letters, t.unsent = append(letters, t.letters...), append(unsent, t.unsent...)
		} else {
			t.letters, t.unsent = letters, unsent
			if t.AutocommitEnabled() { // SQLite has undone all of them
				return j.err
			}
			if err := t.exec("ROLLBACK TO job"); err != nil {
				return err
			}
		}
		if err := t.exec("RELEASE job"); err != nil {
			return err
		}
	}
	if done == 0 {
		return errNone
	}
	return nil
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
