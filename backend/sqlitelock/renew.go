package sqlitelock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"zombiezen.com/go/sqlite"
)

// Renew is one exchange that writes one row, whatever the number of tickets, and one that reads
// them. Each heartbeat also looks whether some other sessions are dead: no event tells of that.
func (s *store) Renew(ctx context.Context, row exchange.Session, tickets []exchange.Ref, _ int) (r exchange.Renewal, err error) {
	var expires, due moment
	var of *session
	_, err = s.inSession(ctx, row, keep, func(t *tx, o *session) (err error) {
		of, expires = o, t.now.add(o.ttl)
		if err := cmp.Or(s.file.same(), o.checkRow(t)); err != nil {
			return err
		}
		if err := t.exec("UPDATE session SET expires = ? WHERE sid = ?", expires, o.sid); err != nil {
			return err
		}
		due, err = t.due()
		return err
	})
	if errors.Is(err, driver.ErrSession) { // others may have found it dead while all was removed, one file after the other
		err = cmp.Or(s.file.same(), err)
	}
	if errors.Is(err, errReplaced) { // the next client does not see our tickets
		err = fmt.Errorf("%w: %w", driver.ErrSession, err)
	}
	if err != nil {
		return r, err
	}
	of.expires.Store(int64(expires))
	if err := s.sweepIf(ctx, due); err != nil {
		return r, err
	}
	var some []peer
	r.Tickets, _ = s.look(ctx, of, tickets, func(c conn) (err error) {
		some, err = c.peers("SELECT sid, id FROM session WHERE expires > 0 ORDER BY random() LIMIT ?", probeAtOnce)
		return err
	})
	s.mailbox.Repair()
	for _, p := range some {
		if s.session(p.id) == nil {
			s.probe(ctx, p)
		}
	}
	return r, nil
}

const probeAtOnce = 16

func (s *store) Look(ctx context.Context, r exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	return s.look(ctx, s.session(r.ID), tickets, func(conn) error { return nil })
}

// look reads the status of tickets, and then what more reads.
func (s *store) look(ctx context.Context, o *session, tickets []exchange.Ref, more func(conn) error) (all []exchange.Status, err error) {
	joined := make([]*known, len(tickets)) // whose absence from the file says that they have left
	for i, ref := range tickets {
		if k, certain, _ := s.tickets.look(ref.ID); certain && k.session == o && k.queue == ref.Queue {
			joined[i] = k
		}
	}
	err = s.view(ctx, func(c conn, now moment) (err error) {
		all = make([]exchange.Status, 0, len(tickets))
		queues := map[string]*looked{}
		var l lease
		if o != nil {
			if l, err = c.lease(o.sid); err != nil {
				return err
			}
		}
		for _, ref := range tickets {
			q := queues[ref.Queue]
			if q == nil {
				if q, err = c.lookQueue(ref.Queue); err != nil {
					return err
				}
				queues[ref.Queue] = q
			}
			p, err := s.own(c, o, q.queue, ref.ID)
			if err == nil && p == nil {
				p, err = c.foreign(q.queue, ref.ID)
			}
			if err != nil {
				return err
			}
			st := exchange.Status{}
			if p != nil && p.end(l) > now {
				st = q.status(p, now)
				st.Unsettled = q.stuck
			}
			all = append(all, st)
		}
		return more(c)
	})
	if err != nil {
		return nil, err
	}
	for i, k := range joined {
		switch {
		case k == nil:
		case all[i].State == exchange.Gone:
			s.tickets.left(k)
		case all[i].State == exchange.Held:
			s.tickets.granted(k)
		}
	}
	return all, nil
}

// looked is a queue as look reads it.
type looked struct {
	*queue
	stuck bool // the first waiter fits: an earlier client has died before it went on with grants
}

func (c conn) lookQueue(name string) (*looked, error) {
	q, err := c.queue(name)
	if err != nil || q.unknown || q.waiting == 0 {
		return &looked{q, false}, err
	}
	fits := false
	_, err = c.one("SELECT units FROM ticket WHERE queue = ? AND n > ? ORDER BY n LIMIT 1", func(r *sqlite.Stmt) {
		fits = r.ColumnInt64(0) <= q.capacity-q.used
	}, q.name, q.granted)
	return &looked{q, fits}, err
}

// status is what an exchange says of a ticket that stands. No waiter has an expiry timer of its
// own: the watcher has one for the file.
func (q *queue) status(p *ticket, now moment) exchange.Status {
	st := exchange.Status{State: exchange.Waiting, Fixed: p.is(fixed), Evicted: p.is(evicted), Revoked: p.is(revoked), Stray: p.is(stray)}
	if p.ends != 0 {
		st.Left, st.Hold = p.ends.sub(now), p.hold
	}
	if q.held(p) {
		st.State, st.Token, st.Inherited, st.Wanted = exchange.Held, q.token(p), q.unclean, q.waiting > 0
	}
	return st
}

// Tickets is not called: there is one file, and so one history.
func (s *store) Tickets(context.Context, exchange.Session) ([]exchange.Ref, error) { return nil, nil }

// Detach gives tickets the end that they have as their own.
func (s *store) Detach(ctx context.Context, r exchange.Session, tickets []exchange.Ref) error {
	return s.each(ctx, r, tickets, func(t *tx, q *queue, p *ticket) error {
		if p.ends != 0 {
			return nil
		}
		l, err := t.lease(p.sid)
		if err != nil {
			return err
		}
		p.ends = p.end(l)
		p.flags |= stray
		if err := t.update(q, p); err != nil {
			return err
		}
		return t.store(q) // not a new version: no reader sees a difference
	})
}

// Attach takes the own end from strays that have not expired.
func (s *store) Attach(ctx context.Context, r exchange.Session, tickets []exchange.Ref) error {
	return s.each(ctx, r, tickets, func(t *tx, q *queue, p *ticket) error {
		if !p.is(stray) || p.ends <= t.now {
			return nil
		}
		p.flags &^= stray
		p.ends = 0
		return t.update(q, p)
	})
}

// each changes tickets of a session that stand.
func (s *store) each(ctx context.Context, r exchange.Session, tickets []exchange.Ref, f func(*tx, *queue, *ticket) error) error {
	_, err := s.inSession(ctx, r, keep, func(t *tx, o *session) error {
		if err := o.checkRow(t); err != nil {
			return err
		}
		for _, ref := range tickets {
			q, err := t.queue(ref.Queue)
			if err != nil {
				return err
			}
			p, err := s.own(t.conn, o, q, ref.ID)
			if err == nil && p != nil {
				err = f(t, q, p)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return err
}
