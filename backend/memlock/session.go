package memlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

type session struct {
	d       *Driver
	row     exchange.Session
	over    bool
	signals []driver.Signal
	bell    bell // rung when there is a signal
	rounds  uint64
}

// usable reports why the session cannot be used.
func (s *session) usable() error {
	if s.over {
		return driver.ErrSession
	}
	return nil
}

func (s *session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if d := s.d; d.quick(ctx) {
		defer d.world.exit()
		return s.join(&r)
	}
	late := r
	return request(ctx, s.d, "Join", func() (driver.Ticket, error) { return s.join(&late) })
}

func (s *session) join(r *driver.Request) (driver.Ticket, error) {
	w := s.d.world
	if err := s.usable(); err != nil {
		return driver.Ticket{}, err
	}
	t := w.tickets[r.ID]
	was, left := w.left.get(w.now, r.ID)
	switch {
	case (t != nil || was.came) && !r.Retry: // a backend need not look for the ticket, and then makes a second one
		return driver.Ticket{}, driver.Invalid(fmt.Errorf("memlock: the ID %s was sent before: a Join that repeats it must have Retry set", r.ID))
	case t != nil:
		return s.rejoin(t, r)
	case left:
		return driver.Ticket{}, driver.ErrGone
	}
	err := w.exchange(r.Queue, func(q *rows.Queue) error {
		j := exchange.Join{Request: *r, Session: s.row}
		j.Note, j.Hold = slices.Clone(r.Note), min(r.Hold, maxHold)
		row, err := q.Place(&j)
		if err == nil {
			t = own(row)
			t.queue, t.owner, t.reportDeath = r.Queue, s, r.ReportDeath
			w.tickets[r.ID] = t
			w.wake(t)
		}
		return err
	})
	if err == driver.ErrBusy && r.Retry {
		w.left.put(w.now, r.ID, departed{})
	}
	if err != nil {
		return driver.Ticket{}, err
	}
	return t.report(), nil
}

// rejoin answers a Join that was sent before.
func (s *session) rejoin(t *ticket, r *driver.Request) (driver.Ticket, error) {
	w := s.d.world
	switch {
	case t.owner != s:
		return driver.Ticket{}, driver.ErrGone
	case t.queue != r.Queue || w.queue(t.queue).Kind != r.Kind:
		return driver.Ticket{}, driver.ErrMismatch
	case r.NoWait && !t.Held:
		_ = s.leave(t.report(), true)
		return driver.Ticket{}, driver.ErrBusy
	}
	return t.report(), nil
}

// own returns a ticket of this session, and with others also one of another
// session that has a fixed end.
func (s *session) own(ref driver.Ticket, others bool) (*ticket, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	t := s.d.world.tickets[ref.ID]
	if t == nil || t.queue != ref.Queue || t.owner != s && !(others && t.Fixed) {
		return nil, driver.ErrGone
	}
	return t, nil
}

func (s *session) Await(ctx context.Context, k driver.Ticket) (driver.Ticket, error) {
	return wait(ctx, s.d, "Await", func() (driver.Ticket, *bell, error) {
		if s.d.cut {
			return driver.Ticket{}, &s.d.healed, nil
		}
		t, err := s.own(k, false)
		switch {
		case err != nil:
			return driver.Ticket{}, nil, err
		case !t.Held:
			return driver.Ticket{}, &t.wakeup, nil
		}
		return t.report(), nil, nil
	})
}

// change makes an exchange with the queue of a ticket.
func (s *session) change(ctx context.Context, method string, k driver.Ticket, does func(*rows.Queue) error) error {
	return s.d.change(ctx, method, k.Queue, func(q *rows.Queue) error {
		if err := s.usable(); err != nil {
			return err
		}
		return does(q)
	})
}

func (s *session) Shrink(ctx context.Context, k driver.Ticket, units int64) error {
	return s.change(ctx, "Shrink", k, func(q *rows.Queue) error { return q.Shrink(s.row, k.ID, units) })
}

func (s *session) Keep(ctx context.Context, k driver.Ticket, d time.Duration) error {
	return s.change(ctx, "Keep", k, func(q *rows.Queue) error {
		err := q.Keep(s.row, k.ID, min(d, maxHold))
		if err == nil {
			s.d.world.wake(s.d.world.tickets[k.ID])
		}
		return err
	})
}

func (s *session) Leave(ctx context.Context, k driver.Ticket, clean bool) error {
	if d := s.d; d.quick(ctx) {
		defer d.world.exit()
		return s.leave(k, clean)
	}
	return change(ctx, s.d, "Leave", func() error { return s.leave(k, clean) })
}

func (s *session) leave(k driver.Ticket, clean bool) error {
	w := s.d.world
	if err := s.usable(); err != nil {
		return err
	}
	err := w.exchange(k.Queue, func(q *rows.Queue) error {
		return q.Leave(exchange.Leave{Ref: exchange.Ref{ID: k.ID}, Session: s.row, Clean: clean})
	})
	if err == driver.ErrGone && w.tickets[k.ID] == nil {
		was, _ := w.left.get(w.now, k.ID)
		w.left.put(w.now, k.ID, was)
	}
	return err
}

func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	return request(ctx, s.d, "Renew", func() ([]driver.Renewed, error) { return s.renew(known) })
}

func (s *session) renew(known []driver.Ticket) ([]driver.Renewed, error) {
	w := s.d.world
	if err := s.usable(); err != nil {
		return nil, err
	}
	s.rounds++
	answer := make([]driver.Renewed, 0, len(known))
	for _, k := range known {
		r := driver.Renewed{ID: k.ID, Queue: k.Queue, State: driver.Gone}
		if t, err := s.own(k, true); err == nil {
			q := w.queue(k.Queue)
			rows.Begin(q, clock(w.now))
			if r.State = driver.Evicted; !t.Evicted {
				q.Extend(&t.Ticket)
				r.State, r.Proof = driver.Kept, t.proof()
			}
			if t.owner == s {
				t.round = s.rounds
			}
			w.remind(t, q)
		}
		answer = append(answer, r)
	}
	for _, t := range w.tickets {
		if t.owner == s && !t.Fixed && t.round != s.rounds {
			answer = append(answer, driver.Renewed{ID: t.ID, Queue: t.queue, State: driver.Stray})
		}
	}
	return answer, nil
}

// remind repeats the demands that stand, in case their signal was lost.
func (w *World) remind(t *ticket, q *rows.Queue) {
	if q.Waits() {
		t.told &^= 1 << driver.Wanted
		w.tell(t, driver.Wanted)
	}
	if t.Revoked {
		w.tell(t, driver.Revoke)
	}
	if t.Evicted {
		w.tell(t, driver.Evict)
	}
}

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	return wait(ctx, s.d, "Signals", s.signal)
}

func (s *session) signal() (driver.Signal, *bell, error) {
	if len(s.signals) == 0 || s.over {
		return driver.Signal{}, &s.bell, s.usable()
	}
	g := s.signals[0]
	if s.d.cut && g.Demand != driver.Doubt {
		return driver.Signal{}, &s.d.healed, nil
	}
	s.signals = s.signals[1:]
	if t := s.d.world.tickets[g.ID]; t != nil && g.Demand != driver.Wanted { // which is told once, and by Renew
		t.told &^= 1 << g.Demand
	}
	return g, nil, nil
}

func (s *session) Close(ctx context.Context) error {
	return change(ctx, s.d, "Close", func() error {
		if err := s.usable(); err != nil {
			return err
		}
		s.end()
		return nil
	})
}

// end has all tickets leave that have no fixed end. Those that wait do first: they are not granted any more.
func (s *session) end() {
	w := s.d.world
	s.over = true
	s.bell.ring()
	delete(w.sessions, s)
	for _, held := range []bool{false, true} {
		for _, t := range w.sorted(func(t *ticket) bool { return t.owner == s && !t.Fixed && t.Held == held }) {
			_ = w.exchange(t.Queue, func(q *rows.Queue) error {
				return q.Leave(exchange.Leave{Ref: exchange.Ref{ID: t.ID}, Session: s.row})
			})
		}
	}
	w.disarm()
}
