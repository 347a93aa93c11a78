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
	s          *store
	now        moment
	out        []outgoing // messages, sent after the commit
	unfinished []string   // queues whose grants go on in another exchange
	lasting    bool       // it must outlast a power loss
	commits    bool       // false as long as it is certain that nothing was committed
}

// how an exchange that writes is done.
type how struct {
	in   lane
	sync bool // its commit outlasts a power loss
}

var (
	fast    = how{in: coming}
	durable = how{in: coming, sync: true}
	quit    = how{in: leaving}
	keep    = how{in: keeping}
)

var errClosed = driver.Permanent(errors.New("sqlite: the driver is closed"))

// change is an exchange that writes. Everything that f does is committed, or
// nothing.
func (s *store) change(ctx context.Context, h how, f func(*tx) error) error {
	_, err := s.changes(ctx, h, f)
	return err
}

// changes also reports whether it is open if anything was committed, which it is
// only after an error of the commit itself.
func (s *store) changes(ctx context.Context, h how, f func(*tx) error) (open bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	t := &tx{s: s}
	err = s.transact(ctx, h, t, f)
	open = t.commits && err != nil
	s.send(t.out)
	for len(t.unfinished) > 0 {
		q := t.unfinished[0]
		t = &tx{s: s}
		e := s.transact(s.ctx, keep, t, func(t *tx) error { return t.resume(q) })
		s.send(t.out)
		if e != nil {
			break // heartbeats of the waiters go on
		}
	}
	return open, err
}

// transact does f when it has the lock.
func (s *store) transact(ctx context.Context, h how, t *tx, f func(*tx) error) (err error) {
	if s.closed.Load() {
		return errClosed
	}
	if err := s.file.lock.take(ctx, h.in); err != nil {
		if s.closed.Load() {
			return errClosed
		}
		return s.file.stuck(err)
	}
	defer s.file.lock.pass()
	if s.closed.Load() {
		return errClosed
	}
	s.exchanges.Add(1)
	if err := s.file.sameNames(); err != nil {
		return err
	}
	c := s.file.write
	t.conn = c
	if h.sync {
		if err := c.exec("PRAGMA synchronous = FULL"); err != nil {
			return s.file.explain(err)
		}
		defer c.exec("PRAGMA synchronous = NORMAL")
	}
	if err := s.begin(ctx, c); err != nil {
		return err
	}
	t.now = s.now()
	if err = f(t); err == nil {
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
		t.out, t.unfinished = nil, nil
	}
	return s.file.explain(err)
}

// within does f entirely or not at all, and says in of what became of it. An error is that of the transaction.
func (t *tx) within(f func() error, of *error) error {
	if err := t.exec("SAVEPOINT part"); err != nil {
		return err
	}
	out, unfinished := t.out, t.unfinished
	t.out, t.unfinished = nil, nil
	if *of = f(); *of == nil {
		t.out, t.unfinished = append(out, t.out...), append(unfinished, t.unfinished...)
	} else {
		t.out, t.unfinished = out, unfinished
		if t.AutocommitEnabled() { // SQLite has undone all of them
			return *of
		}
		if err := t.exec("ROLLBACK TO part"); err != nil {
			return err
		}
	}
	return t.exec("RELEASE part")
}

// begin takes SQLite's own lock, which is free unless another program uses the file.
func (s *store) begin(ctx context.Context, c conn) error {
	err := c.exec("BEGIN IMMEDIATE")
	if err == nil {
		return nil
	}
	return s.file.retry(ctx, func() error { return c.exec("BEGIN IMMEDIATE") })
}

// view is an exchange that reads one state of the file.
func (s *store) view(ctx context.Context, f func(c conn, now moment) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.file.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.file.reading }()
	if s.closed.Load() {
		return errClosed
	}
	s.exchanges.Add(1)
	defer s.file.guard.reading()()
	if err := s.file.same(); err != nil {
		return err
	}
	c := s.file.read
	return s.file.retry(ctx, func() error {
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		err := f(c, s.now())
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
		if _, err := c.one(sql, func(r *sqlite.Stmt) {
			if !r.ColumnIsNull(0) {
				due = min(due, moment(r.ColumnInt64(0)))
			}
		}); err != nil {
			return 0, err
		}
	}
	return due, nil
}

// attend has the watcher notice the ends of the sessions that there are.
func (t *tx) attend(follows bool) error {
	_, err := t.one("SELECT opened FROM file", func(r *sqlite.Stmt) { t.s.watcher.attend(r.ColumnInt64(0), follows) })
	return err
}

const never = moment(1<<63 - 1)
