package sqlitelock

import (
	"context"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"zombiezen.com/go/sqlite"
)

// Read notes the client, if it follows the queue, in the exchange that reads it. A long queue takes
// a second one: no client is to wait for that before it can write.
func (s *store) Read(ctx context.Context, name string, f exchange.Follower) (all exchange.Snapshot, err error) {
	if f.Mailbox != "" {
		due, long := never, false
		err := s.change(ctx, fast, func(t *tx) error {
			q, err := t.queue(name)
			if err != nil {
				return err
			}
			if due, err = t.due(); err != nil {
				return err
			}
			if !q.watched {
				q.watched = true
				if err := t.store(q); err != nil {
					return err
				}
			}
			if err := t.watch("queue", name, f.Mailbox); err != nil {
				return err
			}
			if long = q.tickets > batch; !long {
				all, err = t.snapshot(t.now, q)
			}
			return err
		})
		if err != nil {
			return all, err
		}
		s.watcher.expect(due)
		if !long {
			return all, nil
		}
	}
	err = s.view(ctx, func(c conn, now moment) error {
		q, err := c.queue(name)
		if err != nil {
			return err
		}
		all, err = c.snapshot(now, q)
		return err
	})
	return all, err
}

// snapshot reads the tickets of a queue that have not expired.
func (c conn) snapshot(now moment, q *queue) (exchange.Snapshot, error) {
	wall := time.Now()
	all := exchange.Snapshot{Queue: driver.Queue{Name: q.name}, At: time.Unix(0, int64(now))}
	if q.tickets == 0 && !q.resized {
		return all, nil
	}
	all.Kind, all.Capacity, all.Resized = driver.Kind(q.kind), q.capacity, q.resized
	type holder struct {
		lease
		owner string
	}
	sessions := map[int64]holder{}
	add := func(p *ticket) error {
		o, ok := sessions[p.sid]
		if !ok {
			if _, err := c.one("SELECT ttl, expires, "+readOwner+" FROM session WHERE sid = ?", func(r *sqlite.Stmt) {
				o = holder{lease{time.Duration(r.ColumnInt64(0)), moment(r.ColumnInt64(1))}, r.ColumnText(2)}
			}, p.sid); err != nil {
				return err
			}
			sessions[p.sid] = o
		}
		if p.owner != "" {
			o.owner = p.owner
		}
		if ends := p.end(o.lease); ends > now {
			all.Members = append(all.Members, driver.Member{
				ID: p.id, Owner: o.owner, Note: p.note, Units: p.units, Held: q.held(p), Token: q.token(p),
				Since: wall.Add(p.since.sub(now)), Left: ends.sub(now), Fixed: p.is(fixed),
			})
		}
		return nil
	}
	if q.lone != nil {
		return all, add(q.lone)
	}
	err := c.each("SELECT "+readTicket+" FROM ticket WHERE queue = ? ORDER BY n", func(r *sqlite.Stmt) error {
		p := &ticket{}
		scanTicket(r, 0, p)
		return add(p)
	}, q.name)
	return all, err
}

func (s *store) List(ctx context.Context, prefix, from string) (queues []exchange.Snapshot, next string, err error) {
	err = s.view(ctx, func(c conn, now moment) (err error) {
		var names []string
		if names, next, err = c.names("SELECT name FROM queue WHERE name > ? AND name >= ? AND "+named+" AND tickets > 0 ORDER BY name LIMIT ?", prefix, from); err != nil {
			return err
		}
		queues = queues[:0]
		for _, name := range names {
			q, err := c.queue(name)
			if err != nil {
				return err
			}
			all, err := c.snapshot(now, q)
			if err != nil {
				return err
			}
			queues = append(queues, all)
		}
		return nil
	})
	return queues, next, err
}

// names reads a page of a list. It ends where a name that is read is not the one that is kept.
func (c conn) names(sql, prefix, from string) (names []string, next string, err error) {
	const most = 50
	err = c.all(sql, func(r *sqlite.Stmt) bool {
		name := r.ColumnText(0)
		if name <= from || !strings.HasPrefix(name, prefix) {
			return false
		}
		names = append(names, name)
		return true
	}, from, prefix, most)
	if len(names) == most {
		next = names[most-1]
	}
	return names, next, err
}
