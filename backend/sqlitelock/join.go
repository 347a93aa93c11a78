package sqlitelock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, s, changes, answer)
}

// Join is one exchange, and more only if the queue is full of the dead.
func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	for {
		st, err := s.join(ctx, &j)
		if err != driver.ErrBusy || !s.reap(ctx, j.Queue) {
			return st, fullIsPermanent(err)
		}
	}
}

func (s *store) join(ctx context.Context, j *exchange.Join) (st exchange.Status, err error) {
	how := join
	if j.Hold > 0 {
		how = durable
	}
	var mine *known
	sent := false
	open, err := s.inSession(ctx, j.Session, how, func(t *tx, o *session) error {
		mine, sent = nil, true
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
	})
	if mine != nil {
		s.tickets.ended(mine, err != nil && !open, open)
	}
	if st.State == exchange.Waiting {
		s.watcher.wake()
	}
	if err != nil && !sent {
		err = exchange.NotSent(err)
	}
	return st, err
}
