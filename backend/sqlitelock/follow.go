package sqlitelock

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"zombiezen.com/go/sqlite"
)

// lookAgain is how long Follow and Watch rely on a message before they look at
// the file themselves: a driver without a session has no Renew to make up for a
// lost one.
const lookAgain = 10 * time.Second

func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	if err := driver.CheckName(queue); err != nil {
		return driver.Queue{}, err
	}
	return await(ctx, d, "queue", queue,
		func(c conn, now moment) (driver.Queue, bool, error) {
			q, err := c.queue(queue)
			if err != nil || q.label() == after {
				return driver.Queue{}, false, err
			}
			all, err := d.snapshot(c, now, q)
			return all, true, err
		},
		func(t *tx) (changed bool, err error) {
			q, err := t.queue(queue)
			if err != nil || q.label() != after {
				return true, err
			}
			q.watched = true
			return false, t.store(q)
		})
}

// await returns what read finds, as soon as it is ready. While it is not, watch
// has this driver told of the next change, unless there was one meanwhile. Errors that
// pass do not end it.
func await[T any](ctx context.Context, d *Driver, what, name string, read func(conn, moment) (T, bool, error), watch func(*tx) (changed bool, err error)) (T, error) {
	var got, none T
	look := func() (ready, changed bool, err error) {
		if err := d.sweepDue(ctx); err != nil {
			return false, false, err
		}
		err = d.view(ctx, func(c conn, now moment) (err error) {
			got, ready, err = read(c, now)
			return err
		})
		if ready || err != nil {
			return ready, false, err
		}
		err = d.change(ctx, fast, func(t *tx) (err error) {
			if changed, err = watch(t); changed || err != nil {
				return err
			}
			if err := t.countOpened(); err != nil {
				return err
			}
			return t.exec("INSERT OR IGNORE INTO watch(what, name, post) VALUES (?,?,?)", what, name, d.post.name)
		})
		return false, changed, err
	}
	attending := false
	var pauses backoff.Backoff
	for {
		bell := d.bells.listen(what, name)
		switch ready, changed, err := look(); {
		case err != nil:
			if err := d.outlast(ctx, err, &pauses); err != nil {
				return none, err
			}
			continue
		case ready:
			return got, nil
		case changed:
			continue
		}
		pauses = backoff.Backoff{}
		if !attending {
			attending = true
			defer d.attend()()
		} else {
			d.vigil.attend(d.opened.Load())
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-bell:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return none, ctx.Err()
		case <-d.ctx.Done():
			again.Stop()
			return none, errClosed
		}
		again.Stop()
	}
}

// outlast waits before a call that waits tries again, unless the error ends the call.
func (d *Driver) outlast(ctx context.Context, err error, pauses *backoff.Backoff) error {
	if driver.IsPermanent(err) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	again := time.NewTimer(pauses.Next())
	defer again.Stop()
	select {
	case <-again.C:
	case <-ctx.Done():
	case <-d.ctx.Done():
	}
	return nil
}

// sweepDue sweeps if something has ended by itself.
func (d *Driver) sweepDue(ctx context.Context) error {
	due := never
	err := d.view(ctx, func(c conn, _ moment) (err error) {
		due, err = c.due()
		return err
	})
	if err != nil {
		return err
	}
	if due <= d.clock.now() {
		return d.sweep(ctx)
	}
	d.alarm.expect(due)
	return nil
}

// label names the state of a queue. All empty states are the same.
func (q *queue) label() string {
	if q.tickets == 0 {
		return "empty"
	}
	return strconv.FormatInt(q.version, 36)
}

// snapshot reads the tickets of a queue.
func (d *Driver) snapshot(c conn, now moment, q *queue) (driver.Queue, error) {
	all := driver.Queue{Name: q.name, Version: q.label(), Read: d.instant(now)}
	if q.tickets == 0 {
		return all, nil
	}
	all.Kind, all.Capacity = driver.Kind(q.kind), q.capacity
	wall := time.Now()
	type lease struct {
		ttl     time.Duration
		expires moment
		owner   string
	}
	leases := map[int64]lease{}
	add := func(p *place) error {
		l, ok := leases[p.sid]
		if !ok {
			if _, err := c.one("SELECT ttl, expires, "+readOwner+" FROM session WHERE sid = ?", func(s *sqlite.Stmt) {
				l = lease{time.Duration(s.ColumnInt64(0)), moment(s.ColumnInt64(1)), s.ColumnText(2)}
			}, p.sid); err != nil {
				return err
			}
			leases[p.sid] = l
		}
		m := driver.Member{
			ID:    p.id,
			Owner: l.owner,
			Note:  p.note,
			Units: p.units,
			Held:  q.held(p),
			Token: q.token(p),
			Since: wall.Add(p.since.sub(now)),
			Fixed: p.is(fixed),
		}
		if p.owner != "" {
			m.Owner = p.owner
		}
		ends := p.ends
		if ends == 0 {
			ends = max(l.expires, p.since.add(l.ttl))
		}
		m.Left = max(ends.sub(now), 0)
		all.Members = append(all.Members, m)
		return nil
	}
	if q.lone != nil {
		return all, add(q.lone)
	}
	var err error
	if e := c.all("SELECT "+readPlace+" FROM ticket WHERE queue = ? ORDER BY n", func(s *sqlite.Stmt) bool {
		p := &place{}
		scanPlace(s, 0, p)
		err = add(p)
		return err == nil
	}, q.name); e != nil {
		return all, e
	}
	return all, err
}

func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return func(yield func(driver.Queue, error) bool) {
		if err := d.sweepDue(ctx); err != nil {
			yield(driver.Queue{}, err)
			return
		}
		for from := ""; ; {
			var some []driver.Queue
			err := d.view(ctx, func(c conn, now moment) error {
				some = some[:0]
				var names []string
				if err := c.all("SELECT name FROM queue WHERE name > ? AND name >= ? AND "+named+" AND tickets > 0 ORDER BY name LIMIT 50", func(s *sqlite.Stmt) bool {
					names = append(names, s.ColumnText(0))
					return strings.HasPrefix(s.ColumnText(0), prefix)
				}, from, prefix); err != nil {
					return err
				}
				for _, name := range names {
					q, err := c.queue(name)
					if err != nil {
						return err
					}
					all, err := d.snapshot(c, now, q)
					if err != nil {
						return err
					}
					some = append(some, all)
				}
				return nil
			})
			if err != nil {
				yield(driver.Queue{}, err)
				return
			}
			for _, q := range some {
				if q.Name <= from || !strings.HasPrefix(q.Name, prefix) || !yield(q, nil) {
					return
				}
				from = q.Name
			}
			if len(some) < 50 {
				return
			}
		}
	}
}
