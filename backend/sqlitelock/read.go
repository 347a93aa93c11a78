package sqlitelock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"zombiezen.com/go/sqlite"
)

// Read notes the client, if it follows the queue. What is to be taken out or granted is not shown before that is
// done, and to who follows not what the dead have left: no message tells of a death.
func (s *store) Read(ctx context.Context, name string, f exchange.Follower) (all exchange.Snapshot, err error) {
	settled := false
	if f.Mailbox == "" {
		err = s.view(ctx, func(c conn, now time.Time) error {
			q, err := c.queue(s, name, now, false)
			if err == nil {
				all, settled = q.Read(f), !q.Changed
				err = q.tail.err
			}
			return err
		})
	}
	if err != nil || settled {
		return all, err
	}
	err = s.change(ctx, false, func(t *tx) error {
		q, err := t.reaped(name)
		if err == nil {
			all, err = q.Read(f), q.tail.err
		}
		return err
	})
	return all, err
}

func (s *store) List(ctx context.Context, prefix, from string) (queues []exchange.Snapshot, next string, err error) {
	var names []string
	if err := s.view(ctx, func(c conn, _ time.Time) (err error) {
		names, next, err = c.names("SELECT name FROM queue WHERE name > ? AND name >= ? AND "+named+" ORDER BY name LIMIT ?", prefix, from)
		return err
	}); err != nil {
		return nil, "", err
	}
	var bad error
	err = s.view(ctx, func(c conn, now time.Time) error {
		queues, bad = queues[:0], nil
		for _, name := range names {
			q, err := c.queue(s, name, now, false)
			if err == nil && len(q.Tickets) > 0 {
				queues = append(queues, q.Read(exchange.Follower{}))
				err = q.tail.err
			}
			switch {
			case errors.Is(err, errRow):
				bad = err
			case err != nil:
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = bad
	}
	return queues, next, err
}

// names reads a page of a list. It ends where a name that is read is not the one that is kept.
func (c conn) names(sql, prefix, from string) (names []string, next string, err error) {
	const most = 500
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
