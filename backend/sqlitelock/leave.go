package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if s.d.tickets.leaveAbsent(t.ID, s.ttl) {
		return driver.ErrGone
	}
	how := quit
	if s.d.tickets.holds(t.ID) {
		how = keep
	}
	err := s.alter(ctx, t, how, true, func(x *tx, q *queue, p *place) error {
		if p == nil {
			if s.mayHaveBeen(t) { // marked within the exchange, before a Join can come
				s.d.tickets.leave(t.ID, s.ttl)
			}
			return driver.ErrGone
		}
		x.tellGone(s, q, p)
		return x.remove(q, p, clean)
	})
	if err == nil {
		s.d.tickets.leave(t.ID, s.ttl)
	}
	return err
}

// tellGone tells the session of a fixed ticket that another one has taken it out.
func (t *tx) tellGone(by *session, q *queue, p *place) {
	if p.sid != by.sid {
		m := t.tell(p.sid, q.name)
		m.Gone = append(m.Gone, p.n)
	}
}

// mayHaveBeen reports false for a ticket that stands, but belongs to another
// session.
func (s *session) mayHaveBeen(t driver.Ticket) bool {
	known := s.d.tickets.get(t.ID)
	return known == nil || known.owner == s
}

func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	if units < 1 {
		return driver.Invalid(fmt.Errorf("%d units: at least 1 must stay", units))
	}
	return s.alter(ctx, t, keep, false, func(x *tx, q *queue, p *place) error {
		if p == nil {
			return driver.ErrGone
		}
		if units >= p.units {
			return errNothing
		}
		if q.held(p) {
			q.used -= p.units - units
			if p.units == q.capacity {
				q.unclean = false // the exclusive hold has ended well
			}
		}
		p.units = units
		return x.update(q, p)
	})
}

func (s *session) Keep(ctx context.Context, t driver.Ticket, in time.Duration) error {
	if in <= 0 {
		return driver.Invalid(fmt.Errorf("keep for %v: it must be longer than 0", in))
	}
	proof := driver.Now()
	err := s.alter(ctx, t, how{in: keeping, alone: true, sync: true}, true, func(x *tx, q *queue, p *place) error {
		if p == nil {
			return driver.ErrGone
		}
		if !q.held(p) {
			return driver.Invalid(errors.New("keep: the ticket is not held"))
		}
		if p.is(evicted) && p.ends < x.now.add(min(in, maxHold)) {
			return driver.ErrGone // nothing makes an evicted ticket last longer
		}
		if !p.is(fixed) {
			p.flags |= kept
		}
		x.fix(p, in)
		if p.owner == "" {
			p.owner = s.owner
		}
		if err := x.tellNext(q, p.ends); err != nil {
			return err
		}
		return x.update(q, p)
	})
	if err == nil {
		ts := &s.d.tickets
		ts.mu.Lock()
		defer ts.mu.Unlock()
		if mine := ts.byID[t.ID]; mine != nil {
			mine.hold, mine.proof = true, proof
		}
	}
	return err
}

// errNothing undoes an exchange that has nothing to change.
var errNothing = driver.Permanent(errors.New("nothing to change"))

// alter changes a ticket of this session, or with others a fixed one of another
// session, and grants whoever fits then. For a ticket that does not stand f gets
// nil.
func (s *session) alter(ctx context.Context, tk driver.Ticket, h how, others bool, f func(*tx, *queue, *place) error) error {
	if err := driver.CheckID(tk.ID); err != nil {
		return err
	}
	if err := driver.CheckName(tk.Queue); err != nil {
		return err
	}
	n, err := s.d.number(ctx, tk.Queue, tk.ID)
	if err != nil {
		return err
	}
	_, err = s.exchange(ctx, h, func(t *tx) error {
		if mine := s.d.tickets.get(tk.ID); mine != nil && mine.queue == tk.Queue {
			n = mine.n // its Join may have come just now
		}
		q, err := t.queue(tk.Queue)
		if err != nil {
			return err
		}
		p, err := t.place(q, n)
		if err != nil {
			return err
		}
		if p == nil || p.id != tk.ID || p.sid != s.sid && !(others && p.is(fixed)) {
			p = nil
		}
		switch {
		case p != nil && p.ends != 0 && p.ends <= t.now:
			return errDue
		case p == nil || !p.is(fixed):
			if err := s.check(t); err != nil {
				return err
			}
		}
		if err := f(t, q, p); err != nil {
			return err
		}
		if err := t.grant(q); err != nil {
			return err
		}
		return t.save(q)
	})
	if err == errNothing {
		err = nil
	}
	return err
}

// number finds the number of a ticket in its queue; 0 if it does not stand.
func (d *Driver) number(ctx context.Context, queue, id string) (n int64, err error) {
	if t := d.tickets.get(id); t != nil {
		if t.queue != queue {
			return 0, nil
		}
		return t.n, nil
	}
	err = d.view(ctx, func(c conn, _ moment) error {
		n = 0
		if _, err := c.one("SELECT granted FROM queue WHERE name = ? AND id = ?", func(s *sqlite.Stmt) { n = s.ColumnInt64(0) }, queue, id); err != nil || n != 0 {
			return err
		}
		_, err := c.one("SELECT n FROM ticket WHERE queue = ? AND id = ?", func(s *sqlite.Stmt) { n = s.ColumnInt64(0) }, queue, id)
		return err
	})
	return n, err
}
