package sqlitelock

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"
)

// silent is a session that is over, or has an expired ticket.
type silent struct {
	sid     int64
	address address
	lease

	first moment // when the first of its remaining tickets expires; never if none remains
}

// lease is what the file says of how long the tickets of a session stand.
type lease struct {
	ttl     time.Duration
	expires moment // no ticket of it expires before; 0: it is over
}

// expired is a ticket that has expired.
type expired struct {
	number
	waits bool
}

// sweepIf sweeps if a ticket or session expires at that moment, and it has passed.
func (s *store) sweepIf(ctx context.Context, due moment) error {
	if due <= s.now() {
		return s.sweep(ctx)
	}
	s.watcher.expect(due)
	return nil
}

// sweep takes out the tickets that have expired, grants the next waiters, and sets the expiry timer
// for the next such event. The tickets are found without keeping any client from writing; each
// batch of them is one short exchange.
func (s *store) sweep(ctx context.Context) error {
	var sessions []*silent
	var tickets []expired
	due := never
	err := s.view(ctx, func(c conn, now moment) (err error) {
		if due, err = c.due(); err != nil || due > now {
			return err
		}
		sessions, tickets, err = c.ended(now)
		return err
	})
	if err != nil {
		return err
	}
	if len(sessions)+len(tickets) == 0 {
		s.watcher.expect(due)
		return nil
	}
	// Waiters go first, so that no grant is in vain.
	sortFirst(tickets, func(e expired) bool { return e.waits })
	for len(tickets) > batch {
		if err := s.change(ctx, keep, func(t *tx) error { return t.takeOut(tickets[:batch]) }); err != nil {
			return err
		}
		tickets = tickets[batch:]
	}
	var over []*silent
	err = s.change(ctx, keep, func(t *tx) (err error) {
		if err := t.takeOut(tickets); err != nil {
			return err
		}
		if over, err = t.endSessions(sessions); err != nil {
			return err
		}
		due, err = t.due()
		return err
	})
	if err != nil {
		return err
	}
	for _, o := range over {
		s.file.folder.RemoveSession(o.address.Session)
	}
	s.watcher.expect(due)
	return nil
}

// ended finds the sessions that are silent, and all tickets that have expired.
func (c conn) ended(now moment) (sessions []*silent, tickets []expired, err error) {
	bySID := map[int64]*silent{}
	err = c.each("SELECT sid, post, id, ttl, expires FROM session WHERE expires <= ?", func(r *sqlite.Stmt) error {
		o := &silent{r.ColumnInt64(0), address{Mailbox: r.ColumnText(1), Session: r.ColumnText(2)}, lease{time.Duration(r.ColumnInt64(3)), moment(r.ColumnInt64(4))}, never}
		sessions = append(sessions, o)
		bySID[o.sid] = o
		return checkAddress(o.address)
	}, now)
	if err != nil {
		return nil, nil, err
	}
	found := func(r *sqlite.Stmt) {
		tickets = append(tickets, expired{number{r.ColumnText(0), r.ColumnInt64(1)}, r.ColumnBool(2)})
	}
	err = c.all("SELECT t.queue, t.n, t.n > q.granted FROM ticket t JOIN queue q ON q.name = t.queue WHERE t.ends IS NOT NULL AND t.ends <= ? AND "+named, func(r *sqlite.Stmt) bool {
		found(r)
		return true
	}, now)
	if err != nil || len(sessions) == 0 {
		return sessions, tickets, err
	}
	look := func(r *sqlite.Stmt) bool {
		o := bySID[r.ColumnInt64(3)]
		ends := moment(r.ColumnInt64(5))
		if ends == 0 {
			ends = moment(r.ColumnInt64(4)).add(o.ttl)
		} else if ends <= now {
			return true // found already
		}
		if ends <= now || o.expires == 0 {
			found(r)
		} else {
			o.first = min(o.first, ends)
		}
		return true
	}
	for _, sql := range []string{
		"SELECT t.queue, t.n, t.n > q.granted, t.sid, t.since, t.ends FROM ticket t JOIN queue q ON q.name = t.queue WHERE t.flags & 1 = 0 AND t.sid IN (SELECT sid FROM session WHERE expires <= ?) AND " + named,
		"SELECT name, granted, 0, sid, since, 0 FROM queue WHERE id IS NOT NULL AND sid IN (SELECT sid FROM session WHERE expires <= ?) AND " + named,
	} {
		if err := c.all(sql, look, now); err != nil {
			return nil, nil, err
		}
	}
	return sessions, tickets, nil
}

// takeOut removes those of the tickets that were not renewed meanwhile.
func (t *tx) takeOut(tickets []expired) error {
	queues := map[string]*queue{}
	var order []*queue
	for _, e := range tickets {
		q := queues[e.queue]
		if q == nil {
			var err error
			if q, err = t.queue(e.queue); err != nil {
				return err
			}
			queues[e.queue] = q
			order = append(order, q)
		}
		p, err := t.ticket(q, e.n)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		if _, err := t.removeExpired(q, p); err != nil {
			return err
		}
	}
	for _, q := range order {
		if err := t.grant(q); err != nil {
			return err
		}
		if err := t.save(q); err != nil {
			return err
		}
	}
	return nil
}

// removeExpired takes out a ticket that has expired. The caller grants the next waiters and saves.
func (t *tx) removeExpired(q *queue, p *ticket) (gone bool, err error) {
	l, err := t.lease(p.sid)
	if err != nil || p.end(l) > t.now {
		return false, err
	}
	if l.expires != 0 { // else there is one message for the session
		m := t.notify(p.sid, q.name)
		m.Gone = append(m.Gone, p.n)
	}
	return true, t.remove(q, p, p.is(kept))
}

// end is the moment at which a ticket of a session expires unless it is renewed.
func (p *ticket) end(l lease) moment {
	switch {
	case p.is(fixed):
		return p.ends
	case l.expires == 0:
		return 0
	case p.ends != 0:
		return p.ends
	}
	return max(l.expires, p.since.add(l.ttl))
}

func (c conn) lease(sid int64) (l lease, err error) {
	_, err = c.one("SELECT ttl, expires FROM session WHERE sid = ?", func(r *sqlite.Stmt) {
		l = lease{time.Duration(r.ColumnInt64(0)), moment(r.ColumnInt64(1))}
	}, sid)
	return l, err
}

// endSessions ends those of which no ticket remains, unless they were renewed meanwhile, and notes
// for the others when the next of their tickets expires.
func (t *tx) endSessions(sessions []*silent) (over []*silent, err error) {
	for _, o := range sessions {
		if o.first != never {
			if err := t.exec("UPDATE session SET expires = ? WHERE sid = ? AND expires = ?", o.first, o.sid, o.expires); err != nil {
				return nil, err
			}
			continue
		}
		if err := t.exec("DELETE FROM session WHERE sid = ? AND expires <= ?", o.sid, t.now); err != nil {
			return nil, err
		}
		if t.Changes() > 0 {
			over = append(over, o)
			t.out = append(t.out, outgoing{to: o.address, body: message{Over: o.sid}})
		}
	}
	return over, nil
}
