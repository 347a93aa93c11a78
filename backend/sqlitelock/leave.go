package sqlitelock

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Leave of a holder goes before a crowd: other leases depend on it. Leaves of waiters share
// exchanges.
func (s *store) Leave(ctx context.Context, l exchange.Leave) (unsettled bool, err error) {
	how := keep
	if _, waits := s.tickets.wait(l.ID); waits || l.Tombstone > 0 {
		how = quit
	}
	return false, s.alter(ctx, how, l.Session, l.Ref, true, func(t *tx, o *session, q *queue, p *ticket) error {
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

func (s *store) Shrink(ctx context.Context, r exchange.Session, ref exchange.Ref, units int64) (unsettled bool, err error) {
	return false, s.alter(ctx, keep, r, ref, false, func(t *tx, _ *session, q *queue, p *ticket) error {
		if p == nil {
			return driver.ErrGone
		}
		if units >= p.units {
			return errNothing
		}
		if q.held(p) {
			if q.exclusive(p) {
				q.unclean = false // the exclusive hold has ended well
			}
			q.used -= p.units - units
		}
		p.units = units
		return t.update(q, p)
	})
}

// Keep is committed synchronously: the fixed end outlasts a power loss.
func (s *store) Keep(ctx context.Context, r exchange.Session, ref exchange.Ref, in time.Duration) error {
	return s.alter(ctx, how{in: keeping, alone: true, sync: true}, r, ref, true, func(t *tx, o *session, q *queue, p *ticket) error {
		if p == nil {
			return driver.ErrGone
		}
		if !q.held(p) {
			return exchange.ErrNotHeld
		}
		if p.is(evicted) && p.ends < t.now.add(in) {
			return driver.ErrGone
		}
		if !p.is(fixed) {
			p.flags |= kept
		}
		t.fix(p, in)
		if p.owner == "" {
			p.owner = o.owner
		}
		if err := t.notifyFirst(q, p.ends); err != nil {
			return err
		}
		return t.update(q, p)
	})
}

// alter changes a ticket of the session, or with others a fixed one of another session, and grants
// the next waiters. For a ticket that does not stand f gets nil.
func (s *store) alter(ctx context.Context, h how, r exchange.Session, ref exchange.Ref, others bool, f func(*tx, *session, *queue, *ticket) error) error {
	left := false
	_, err := s.inSession(ctx, r, h, func(t *tx, o *session) error {
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
	})
	if k := s.tickets.get(ref.ID); k != nil && err == nil && left {
		s.tickets.left(k)
	}
	return err
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
