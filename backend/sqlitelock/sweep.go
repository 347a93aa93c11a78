package sqlitelock

import (
	"context"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
)

// silent is a session of which something has ended because it was not renewed, or
// that is over.
type silent struct {
	sid int64
	address
	ttl     time.Duration
	expires moment // 0: it is over

	first moment // when the first of its remaining tickets ends; never if none remains
}

// victim is a ticket that has ended by itself.
type victim struct {
	queue string
	n     int64
	waits bool
}

// sweep takes out the tickets that have ended by themselves, grants whoever is
// next, and sets the alarm for the next such event. The tickets are found without
// keeping anybody from writing; each batch of them is one short exchange.
func (d *Driver) sweep(ctx context.Context) error {
	var sessions []*silent
	var victims []victim
	due := never
	err := d.view(ctx, func(c conn, now moment) (err error) {
		if due, err = c.due(); err != nil || due > now {
			return err
		}
		sessions, victims, err = c.ended(now)
		return err
	})
	if err != nil {
		return err
	}
	if due > d.clock.now() {
		d.alarm.expect(due)
		return nil
	}
	// Those that wait go first, so that nothing is granted to the dead.
	slices.SortStableFunc(victims, func(a, b victim) int {
		switch {
		case a.waits == b.waits:
			return 0
		case a.waits:
			return -1
		}
		return 1
	})
	for len(victims) > batch {
		if err := d.change(ctx, keep, func(t *tx) error { return t.takeOut(victims[:batch]) }); err != nil {
			return err
		}
		victims = victims[batch:]
	}
	var over []*silent
	err = d.change(ctx, keep, func(t *tx) (err error) {
		if err := t.takeOut(victims); err != nil {
			return err
		}
		if over, err = t.settle(sessions); err != nil {
			return err
		}
		due, err = t.due()
		return err
	})
	if err != nil {
		return err
	}
	for _, s := range over {
		d.file.folder.bury(s.session)
	}
	d.alarm.expect(due)
	return nil
}

// ended finds the sessions of which something has ended, and all tickets that
// have.
func (c conn) ended(now moment) (sessions []*silent, victims []victim, err error) {
	bySID := map[int64]*silent{}
	var wrong error
	err = c.all("SELECT sid, post, id, ttl, expires FROM session WHERE expires <= ?", func(r *sqlite.Stmt) bool {
		s := &silent{r.ColumnInt64(0), address{r.ColumnText(1), r.ColumnText(2)}, time.Duration(r.ColumnInt64(3)), moment(r.ColumnInt64(4)), never}
		sessions = append(sessions, s)
		bySID[s.sid] = s
		wrong = s.address.check()
		return wrong == nil
	}, now)
	if err == nil {
		err = wrong
	}
	if err != nil {
		return nil, nil, err
	}
	err = c.all("SELECT t.queue, t.n, t.n > q.granted FROM ticket t JOIN queue q ON q.name = t.queue WHERE t.ends IS NOT NULL AND t.ends <= ? AND "+named, func(r *sqlite.Stmt) bool {
		victims = append(victims, victim{r.ColumnText(0), r.ColumnInt64(1), r.ColumnBool(2)})
		return true
	}, now)
	if err != nil || len(sessions) == 0 {
		return sessions, victims, err
	}
	look := func(r *sqlite.Stmt) bool {
		s := bySID[r.ColumnInt64(3)]
		ends := moment(r.ColumnInt64(5))
		if ends == 0 {
			ends = moment(r.ColumnInt64(4)).add(s.ttl)
		} else if ends <= now {
			return true // found already
		}
		if ends <= now || s.expires == 0 {
			victims = append(victims, victim{r.ColumnText(0), r.ColumnInt64(1), r.ColumnBool(2)})
		} else {
			s.first = min(s.first, ends)
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
	return sessions, victims, nil
}

// takeOut removes those of the tickets that have still not been renewed.
func (t *tx) takeOut(victims []victim) error {
	queues := map[string]*queue{}
	var order []*queue
	for _, v := range victims {
		q := queues[v.queue]
		if q == nil {
			var err error
			if q, err = t.queue(v.queue); err != nil {
				return err
			}
			queues[v.queue] = q
			order = append(order, q)
		}
		p, err := t.place(q, v.n)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		ttl, expires, err := t.lease(p.sid)
		if err != nil {
			return err
		}
		if p.end(ttl, expires) > t.now {
			continue
		}
		if expires != 0 { // else the session is told as a whole
			m := t.tell(p.sid, q.name)
			m.Gone = append(m.Gone, p.n)
		}
		if err := t.remove(q, p, p.is(kept)); err != nil {
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

// end is the moment at which a ticket ends unless it is renewed.
func (p *place) end(ttl time.Duration, expires moment) moment {
	switch {
	case p.is(fixed):
		return p.ends
	case expires == 0:
		return 0
	case p.ends != 0:
		return p.ends
	}
	return max(expires, p.since.add(ttl))
}

// lease reads the TTL of a session and the moment before which nothing of it
// ends; 0 if it is over.
func (c conn) lease(sid int64) (ttl time.Duration, expires moment, err error) {
	_, err = c.one("SELECT ttl, expires FROM session WHERE sid = ?", func(s *sqlite.Stmt) {
		ttl, expires = time.Duration(s.ColumnInt64(0)), moment(s.ColumnInt64(1))
	}, sid)
	return ttl, expires, err
}

// settle ends the sessions of which nothing remains, unless they were renewed
// meanwhile, and notes for the others when the next of their tickets ends.
func (t *tx) settle(sessions []*silent) (over []*silent, err error) {
	for _, s := range sessions {
		if s.first == never {
			if err := t.exec("DELETE FROM session WHERE sid = ? AND expires <= ?", s.sid, t.now); err != nil {
				return nil, err
			}
			if t.Changes() > 0 {
				over = append(over, s)
				t.letters = append(t.letters, letter{to: s.address, body: message{Over: s.sid}})
			}
		} else if err := t.exec("UPDATE session SET expires = ? WHERE sid = ? AND expires = ?", s.first, s.sid, s.expires); err != nil {
			return nil, err
		}
	}
	return over, nil
}
