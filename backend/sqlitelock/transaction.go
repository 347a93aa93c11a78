package sqlitelock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// tx is a transaction that writes.
type tx struct {
	conn
	s       *store
	now     time.Time      // by the clock of the file
	sent    driver.Instant // not after now: what is proven from then on ends no sooner for all others
	queues  []*queue       // that were read
	events  []rows.Event   // sent after the commit; each names its queue
	fronts  []string       // sessions whose death is to be noticed
	lasting bool           // it must outlast a power loss
}

// change is an exchange that writes. Everything that f does is committed, or nothing. A durable commit outlasts a power
// loss.
func (s *store) change(ctx context.Context, durable bool, f func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.begin() {
		return errClosed
	}
	defer s.work.Done()
	t := &tx{s: s, conn: s.file.write}
	if err := s.file.lock.take(ctx, s.ctx.Done()); err != nil {
		return s.file.stuck(err)
	}
	s.exchanges.Add(1)
	err := s.file.explain(t.run(ctx, durable, f))
	s.file.lock.pass()
	if err != nil {
		if full(err) { // else it would be repeated until there is space
			err = driver.Permanent(err)
		}
		return err
	}
	s.send(t.events)
	s.watch(t.fronts)
	return nil
}

func (t *tx) run(ctx context.Context, durable bool, f func(*tx) error) (err error) {
	if err := t.s.file.sameNames(); err != nil {
		return err
	}
	if durable {
		if err := t.exec("PRAGMA synchronous = FULL"); err != nil {
			return err
		}
		defer t.exec("PRAGMA synchronous = NORMAL")
	}
	if err := t.exec("BEGIN IMMEDIATE"); err != nil { // another program uses the file
		if err = t.s.file.retry(ctx, t.s.ctx.Done(), func() error { return t.exec("BEGIN IMMEDIATE") }); err != nil {
			return err
		}
	}
	t.sent, t.now = t.s.now()
	if err = f(t); err == nil {
		err = t.save()
	}
	if err == nil {
		err = t.exec("COMMIT")
	}
	if err == nil && t.lasting && !durable {
		_ = t.exec("PRAGMA wal_checkpoint") // which synchronises
	}
	if !t.AutocommitEnabled() {
		err = cmp.Or(errors.Join(err, t.exec("ROLLBACK")), err)
	}
	return err
}

// now is the time of the file, and not after that the local time.
func (s *store) now() (driver.Instant, time.Time) {
	sent := driver.Now()
	return sent, time.Unix(0, s.clock.At(sent))
}

// changeQueue is change for one queue. What f returns does not undo it.
func (s *store) changeQueue(ctx context.Context, name string, durable bool, f func(*tx, *queue) error) (err error) {
	var is error
	err = s.change(ctx, durable, func(t *tx) error {
		q, err := t.queue(name)
		if err == nil {
			is = f(t, q)
			err = q.tail.err
		}
		return err
	})
	return cmp.Or(err, is)
}

// view is an exchange that reads one state of the file.
func (s *store) view(ctx context.Context, f func(c conn, now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.begin() {
		return errClosed
	}
	defer s.work.Done()
	select {
	case s.file.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return errClosed
	}
	defer func() { <-s.file.reading }()
	s.exchanges.Add(1)
	defer s.file.guard.reading()()
	if err := s.file.same(); err != nil {
		return err
	}
	c := s.file.read
	return s.file.retry(ctx, s.ctx.Done(), func() error {
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		_, now := s.now()
		err := f(c, now)
		if e := c.exec("ROLLBACK"); err == nil {
			err = e
		}
		return err
	})
}

// clockToken is the smallest token of now.
func clockToken() uint64 { return uint64(time.Now().UnixMicro() / 10) }

// Clock is that of tokens.
func (s *store) Clock(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }
