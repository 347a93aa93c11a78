package sqlitelock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// part is a change that can be made in one transaction with others.
type part struct {
	session exchange.Session
	how     how
	f       func(*tx, *session) error
	ended   func(open bool, err error) exchange.Answer // called once, when the transaction has ended
}

func (s *store) part(c exchange.Change) part {
	switch c := c.(type) {
	case *exchange.Join:
		return s.joining(c)
	case *exchange.Leave:
		return s.leaving(c)
	case *exchange.Shrink:
		return s.shrinking(c)
	default:
		return s.keeping(c.(*exchange.Keep))
	}
}

// Change makes changes in one transaction, each of them entirely or not at all. One that needs more goes alone.
func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	if len(changes) == 1 {
		answer(0, s.alone(ctx, changes[0]))
		return
	}
	h, parts := fast, make([]part, len(changes))
	for i, c := range changes {
		parts[i] = s.part(c)
		h.in = min(h.in, parts[i].how.in)
	}
	errs, done := make([]error, len(changes)), false
	open, err := s.changes(ctx, h, func(t *tx) error {
		if h.in != keeping {
			s.file.lock.rest(len(parts))
		}
		for i, p := range parts {
			if o := s.session(p.session.ID); p.how.sync {
				errs[i] = exchange.ErrAlone
			} else if o == nil {
				errs[i] = driver.ErrSession
			} else if err := t.within(func() error { return p.f(t, o) }, &errs[i]); err != nil {
				return err
			}
			done = done || errs[i] == nil
		}
		if !done {
			return errNothing
		}
		return nil
	})
	for i, p := range parts {
		is := errs[i]
		if is != exchange.ErrAlone {
			is = s.outcome(p.session, s.file.explain(is))
		}
		switch is {
		case nil:
			is = s.outcome(p.session, err)
		case errDue:
			is = exchange.ErrAlone
		}
		if a := p.ended(open && errs[i] == nil, is); is != exchange.ErrAlone {
			answer(i, a)
		} else {
			answer(i, exchange.Answer{Err: is})
		}
	}
}

// alone is one exchange, and more only if the queue is full of the dead.
func (s *store) alone(ctx context.Context, c exchange.Change) exchange.Answer {
	for {
		p := s.part(c)
		a := p.ended(s.inSession(ctx, p.session, p.how, p.f))
		if a.Err != driver.ErrBusy || !s.reap(ctx, c.In()) {
			return a
		}
	}
}

func (s *store) joining(j *exchange.Join) part {
	how := fast
	if j.Hold > 0 {
		how = durable
	}
	var st exchange.Status
	var mine *known
	sent := false
	f := func(t *tx, o *session) error {
		st, mine, sent = exchange.Status{}, nil, true
		k, certain, left := s.tickets.look(j.ID)
		if left {
			return driver.ErrGone
		}
		if err := o.check(t); err != nil {
			return err
		}
		q, err := t.queue(j.Queue)
		if err != nil {
			return err
		}
		if k != nil { // an earlier Join may have made it
			switch p, err := t.ticket(q, k.n); {
			case k.queue != j.Queue:
				return driver.ErrMismatch
			case k.session != o:
				return driver.ErrGone
			case err != nil:
				return err
			case p != nil && p.id == j.ID && p.ends != 0 && p.ends <= t.now:
				return errDue
			case p != nil && p.id == j.ID:
				st = q.status(p, t.now)
				return nil
			case certain:
				s.tickets.left(k)
				return driver.ErrGone
			}
		}
		if q.tickets == 0 && !q.resized {
			q.kind, q.capacity = string(j.Kind), j.Capacity
		}
		same := q.kind == string(j.Kind) && q.capacity == j.Capacity
		if !same || !q.fits(j.Units) {
			due, err := t.due()
			switch {
			case err != nil:
				return err
			case due <= t.now:
				return errDue
			case !same:
				return driver.ErrMismatch
			case j.NoWait:
				return driver.ErrBusy
			}
			s.watcher.expect(due)
			if err := t.attend(false); err != nil {
				return err
			}
		}
		n, err := q.next()
		if err != nil {
			return err
		}
		p := &ticket{n: n, id: j.ID, units: j.Units, sid: o.sid, since: t.now, note: j.Note, hold: j.Hold}
		if j.Hold > 0 {
			p.owner = o.owner
		}
		if err := t.add(q, p); err != nil {
			return err
		}
		if err := t.save(q); err != nil {
			return err
		}
		st = q.status(p, t.now)
		mine = &known{number: number{j.Queue, n}, id: j.ID, session: o, waits: !q.held(p)}
		s.tickets.put(mine)
		return nil
	}
	return part{j.Session, how, f, func(open bool, err error) exchange.Answer {
		if mine != nil {
			s.tickets.ended(mine, err != nil && !open, open)
		}
		if st.State == exchange.Waiting {
			s.watcher.wake()
		}
		if err = fullIsPermanent(err); err != nil && !sent {
			err = exchange.NotSent(err)
		}
		return exchange.Answer{Status: st, Err: err}
	}}
}
