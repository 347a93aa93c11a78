package sqlitelock

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// leaving goes before a crowd, if it is of a holder: other leases depend on it.
func (s *store) leaving(l *exchange.Leave) part {
	how := keep
	if _, waits := s.tickets.wait(l.ID); waits || l.Tombstone > 0 {
		how = quit
	}
	return s.altering(how, l.Session, l.Ref, true, func(t *tx, o *session, q *queue, p *ticket) error {
		if p == nil {
			if l.Tombstone > 0 {
				s.tickets.addTombstone(l.ID, l.Tombstone)
			}
			return driver.ErrGone
		}
		if p.sid != o.sid {
			m := t.notify(p.sid, q.name)
			m.Gone = append(m.Gone, p.n)
		}
		return t.remove(q, p, l.Clean)
	})
}

func (s *store) shrinking(c *exchange.Shrink) part {
	return s.altering(keep, c.Session, c.Ref, false, func(t *tx, _ *session, q *queue, p *ticket) error {
		if p == nil {
			return driver.ErrGone
		}
		if c.Units >= p.units {
			return errNothing
		}
		if q.held(p) {
			if q.exclusive(p) {
				q.unclean = false // the exclusive hold has ended well
			}
			q.used -= p.units - c.Units
		}
		p.units = c.Units
		return t.update(q, p)
	})
}

// keeping is committed synchronously: the fixed end outlasts a power loss.
func (s *store) keeping(c *exchange.Keep) part {
	return s.altering(how{in: keeping, sync: true}, c.Session, c.Ref, true, func(t *tx, o *session, q *queue, p *ticket) error {
		if p == nil {
			return driver.ErrGone
		}
		if !q.held(p) {
			return exchange.ErrNotHeld
		}
		if p.is(evicted) && p.ends < t.now.add(c.For) {
			return driver.ErrGone
		}
		if !p.is(fixed) {
			p.flags |= kept
		}
		t.fix(p, c.For)
		if p.owner == "" {
			p.owner = o.owner
		}
		if err := t.notifyFirst(q, p.ends); err != nil {
			return err
		}
		return t.update(q, p)
	})
}

// altering changes a ticket of the session, or with others a fixed one of another session, and grants
// the next waiters. For a ticket that does not stand f gets nil.
func (s *store) altering(h how, r exchange.Session, ref exchange.Ref, others bool, f func(*tx, *session, *queue, *ticket) error) part {
	left := false
	return part{r, h, func(t *tx, o *session) error {
		left = false
		q, err := t.queue(ref.Queue)
		if err != nil {
			return err
		}
		p, err := s.own(t.conn, o, q, ref.ID)
		if err == nil && p == nil && others {
			p, err = t.foreign(q, ref.ID)
		}
		switch {
		case err != nil:
			return err
		case p != nil && p.ends != 0 && p.ends <= t.now:
			return errDue
		case p == nil || !p.is(fixed):
			if err := o.check(t); err != nil {
				return err
			}
		}
		before := q.tickets
		if err := f(t, o, q, p); err != nil {
			return err
		}
		left = q.tickets < before
		if err := t.grant(q); err != nil {
			return err
		}
		return t.save(q)
	}, func(_ bool, err error) exchange.Answer {
		if k := s.tickets.get(ref.ID); k != nil && err == nil && left {
			s.tickets.left(k)
		}
		return exchange.Answer{Err: err}
	}}
}

// own finds a ticket of a session in a queue; nil if it does not stand.
func (s *store) own(c conn, o *session, q *queue, id string) (*ticket, error) {
	k := s.tickets.get(id)
	if k == nil || k.queue != q.name || k.session != o {
		return nil, nil
	}
	p, err := c.ticket(q, k.n)
	if p != nil && (p.id != id || p.sid != o.sid) {
		p = nil
	}
	return p, err
}

// foreign finds a ticket with a fixed end, most often of another session; nil if it does not stand.
func (c conn) foreign(q *queue, id string) (p *ticket, err error) {
	_, err = c.one("SELECT "+readTicket+" FROM ticket WHERE queue = ? AND n <= ? AND id = ? AND flags & 1", func(r *sqlite.Stmt) {
		p = &ticket{}
		scanTicket(r, 0, p)
	}, q.name, q.granted, id)
	return p, err
}

// End also settles the queues of the session.
func (s *store) End(ctx context.Context, r exchange.Session, _ []exchange.Leave) (queues []string, err error) {
	o := s.session(r.ID)
	if o == nil {
		return nil, nil
	}
	if err = s.change(ctx, keep, func(t *tx) error {
		o.expires.Store(0)
		return t.exec("UPDATE session SET expires = 0 WHERE sid = ?", o.sid)
	}); err != nil {
		return nil, err
	}
	if err := s.sweep(ctx); err != nil {
		return nil, err
	}
	s.forget(o)
	return nil, nil
}
