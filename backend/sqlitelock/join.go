package sqlitelock

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
)

var (
	errTokens = driver.Permanent(errors.New("the tokens of this queue are used up"))

	// errDue undoes an exchange because something in its way has ended by itself
	// and must be swept first.
	errDue = driver.Permanent(errors.New("sqlite: something is to be swept"))
)

func (s *session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if err := checkRequest(&r); err != nil {
		return driver.Ticket{}, err
	}
	for {
		got, err := s.join(ctx, r)
		if err == nil && r.NoWait && !got.Held {
			return driver.Ticket{}, driver.ErrBusy // an earlier one that waited, and left just now
		}
		if err == driver.ErrBusy && s.d.reap(ctx, r.Queue) {
			continue
		}
		if err == driver.ErrBusy && r.Retry {
			s.d.tickets.leave(r.ID, s.ttl)
		}
		return got, err
	}
}

func checkRequest(r *driver.Request) error {
	if err := driver.CheckID(r.ID); err != nil {
		return err
	}
	if err := driver.CheckName(r.Queue); err != nil {
		return err
	}
	return driver.CheckRequest(r)
}

func (s *session) join(ctx context.Context, r driver.Request) (got driver.Ticket, err error) {
	ts := &s.d.tickets
	var mine, left *ticket
	proof := driver.Now()
	how := join
	if r.Hold > 0 {
		how = durable
	}
	first := ts.begin(&r)
	open, err := s.exchange(ctx, how, func(t *tx) error {
		mine, left = nil, nil
		old, gone := ts.known(r.ID)
		if gone {
			return driver.ErrGone
		}
		if err := s.check(t); err != nil {
			return err
		}
		if old != nil {
			again, err := s.rejoin(t, old, &r)
			if got = ts.report(old); again && r.NoWait && !got.Held {
				left = old
			}
			if again || err != nil {
				return err
			}
		}
		q, err := t.queue(r.Queue)
		if err != nil {
			return err
		}
		if q.tickets == 0 {
			q.kind, q.capacity = string(r.Kind), r.Capacity
		}
		same := q.kind == string(r.Kind) && q.capacity == r.Capacity
		if !same || !q.fits(r.Units) {
			due, err := t.due()
			switch {
			case err != nil:
				return err
			case due <= t.now:
				return errDue
			case !same:
				return driver.ErrMismatch
			case r.NoWait:
				return driver.ErrBusy
			}
			s.d.alarm.expect(due)
			if err := t.countOpened(); err != nil {
				return err
			}
		}
		n, err := q.next()
		if err != nil {
			return err
		}
		p := &place{n: n, id: r.ID, units: r.Units, sid: s.sid, since: t.now, note: r.Note, hold: r.Hold}
		if r.Hold > 0 {
			p.owner = s.owner
		}
		if err := t.add(q, p); err != nil {
			return err
		}
		if err := t.save(q); err != nil {
			return err
		}
		// It must be known before anybody can send a message about it.
		mine = &ticket{id: r.ID, queue: r.Queue, n: n, owner: s, hold: r.Hold > 0, proof: proof}
		if !q.held(p) && mine.hold {
			mine.proof = 0 // known with the grant
		}
		if q.held(p) {
			mine.state, mine.token, mine.inherited = held, q.token(p), q.unclean
		}
		ts.put(mine)
		return nil
	})
	switch {
	case err == nil && mine != nil:
		ts.mu.Lock()
		defer ts.mu.Unlock()
		mine.standing = true
		return mine.report(), nil
	case err == nil && left != nil:
		ts.leave(left.id, s.ttl)
	case err != nil && mine != nil:
		if open {
			ts.mu.Lock()
			mine.standing, mine.unsure = true, true
			ts.mu.Unlock()
		} else {
			ts.drop(mine)
		}
	}
	if err != nil {
		got = driver.Ticket{}
		if first && !open && ctx.Err() != nil {
			ts.failed(r.ID)
		}
	}
	if full(err) {
		err = driver.Permanent(err)
	}
	return got, err
}

// rejoin answers a Join that was sent before. It reports false if that one had no
// effect.
func (s *session) rejoin(t *tx, old *ticket, r *driver.Request) (bool, error) {
	q, err := t.queue(old.queue)
	if err != nil {
		return false, err
	}
	p, err := t.place(q, old.n)
	if err != nil {
		return false, err
	}
	ts := &s.d.tickets
	switch {
	case p == nil || p.id != old.id:
		if old.unsure {
			ts.drop(old)
			return false, nil
		}
		ts.leave(old.id, s.ttl)
		return true, driver.ErrGone
	case old.queue != r.Queue || q.kind != string(r.Kind) || q.capacity != r.Capacity:
		return true, driver.ErrMismatch
	case old.owner != s && !p.is(fixed):
		return true, driver.ErrGone
	}
	ts.mu.Lock()
	old.unsure = false
	if q.held(p) && old.state == waiting {
		old.granted(q.token(p), q.unclean)
	}
	waits := old.state == waiting
	ts.mu.Unlock()
	if waits && r.NoWait {
		if err := t.remove(q, p, true); err != nil {
			return true, err
		}
		if err := t.grant(q); err != nil {
			return true, err
		}
		return true, t.save(q)
	}
	return true, nil
}

// report is the ticket as the caller gets it.
func (ts *tickets) report(t *ticket) driver.Ticket {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.report()
}
