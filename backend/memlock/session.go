package memlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
)

type session struct {
	d     *Driver
	id    string
	ttl   time.Duration
	owner string
	over  bool

	tickets list  // without a fixed end, by their last renewal: the first ends first
	alarm   alarm // for the first of tickets
	signals list  // those with something to tell
	forced  []driver.Signal
	doubt   bool // Doubt is to be told
	bell    bell // rung when there is a signal
	rounds  uint64
}

func (s *session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	return call(ctx, s.d, "Join", s, (*session).join, r)
}

func (s *session) join(r driver.Request) (driver.Ticket, error) {
	w := s.d.world
	if s.over {
		return driver.Ticket{}, driver.ErrSession
	}
	k := parseID(r.ID)
	if t := w.tickets[k]; t != nil {
		if !r.Retry {
			return driver.Ticket{}, errNoRetry(r.ID)
		}
		return s.rejoin(t, &r)
	}
	if was, left := w.left.get(w.now, k); left {
		if was.came && !r.Retry {
			return driver.Ticket{}, errNoRetry(r.ID)
		}
		return driver.Ticket{}, driver.ErrGone
	}
	q, err := w.queueFor(&r)
	if err != nil {
		return driver.Ticket{}, err
	}
	if !w.tokensLeft(q) {
		w.tidy(q)
		return driver.Ticket{}, errTokens
	}
	if r.NoWait && (q.waiting != nil || r.Units > q.capacity-q.used) {
		if r.Retry {
			w.left.put(w.now, k, departed{})
		}
		return driver.Ticket{}, driver.ErrBusy
	}
	t := w.newTicket()
	t.id, t.text = k, r.ID
	t.queue, t.owner = q, s
	t.units, t.hold, t.reportDeath = r.Units, r.Hold, r.ReportDeath
	t.note = slices.Clone(r.Note)
	t.since, t.proof, t.end = w.now, w.now, w.now.Add(s.ttl)
	w.tickets[k] = t
	s.tickets.push(t)
	if s.alarm.index == 0 {
		w.set(&s.alarm, t.end)
	}
	w.append(q, t)
	return t.report(), nil
}

// errNoRetry: a backend need not look for the ticket, and then makes a second one.
func errNoRetry(id string) error {
	return driver.Invalid(fmt.Errorf("memlock: the ID %s was sent before: a Join that repeats it must have Retry set", id))
}

// rejoin answers a Join that was sent before.
func (s *session) rejoin(t *ticket, r *driver.Request) (driver.Ticket, error) {
	switch {
	case t.queue.name != r.Queue || t.queue.kind != r.Kind:
		return driver.Ticket{}, driver.ErrMismatch
	case t.owner != s && t.fixed == nil:
		return driver.Ticket{}, driver.ErrGone
	case r.NoWait && !t.held:
		s.d.world.leave(t, true)
		return driver.Ticket{}, driver.ErrBusy
	}
	return t.report(), nil
}

// find returns the ticket that stands in the queue, or nil.
func (w *World) find(queue, text string) *ticket {
	if t := w.tickets[parseID(text)]; t != nil && t.queue.name == queue {
		return t
	}
	return nil
}

// own returns a ticket of this session, and with others also one of another
// session that has a fixed end.
func (s *session) own(t driver.Ticket, others bool) (*ticket, error) {
	if s.over {
		return nil, driver.ErrSession
	}
	f := s.d.world.find(t.Queue, t.ID)
	if f == nil || f.owner != s && !(others && f.fixed != nil) {
		return nil, driver.ErrGone
	}
	return f, nil
}

func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	return wait(ctx, s.d, "Await", func() (driver.Ticket, *bell, error) {
		if s.d.cut {
			return driver.Ticket{}, &s.d.healed, nil
		}
		f, err := s.own(t, false)
		switch {
		case err != nil:
			return driver.Ticket{}, nil, err
		case !f.held:
			return driver.Ticket{}, &f.wakeup, nil
		}
		return f.report(), nil, nil
	})
}

func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	return change(ctx, s.d, "Shrink", func() error {
		f, err := s.own(t, false)
		if err == nil && units < f.units {
			s.d.world.shrink(f, units)
		}
		return err
	})
}

func (s *session) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	return change(ctx, s.d, "Keep", func() error {
		w := s.d.world
		f, err := s.own(t, true)
		switch {
		case err != nil:
			return err
		case !f.held:
			return driver.Invalid(errors.New("keep: the ticket is not held"))
		case f.evicted && w.now.Add(min(d, maxHold)) > f.end:
			return driver.ErrGone // nothing makes an evicted ticket last longer
		}
		w.fix(f, d)
		w.changed(f.queue)
		return nil
	})
}

type leave struct {
	ticket driver.Ticket
	clean  bool
}

func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	_, err := call(ctx, s.d, "Leave", s, (*session).leave, leave{t, clean})
	return err
}

func (s *session) leave(a leave) (none, error) {
	w := s.d.world
	t, err := s.own(a.ticket, true)
	if err == driver.ErrGone {
		k := parseID(a.ticket.ID)
		if w.tickets[k] == nil {
			was, _ := w.left.get(w.now, k)
			w.left.put(w.now, k, was)
		}
	}
	if err != nil {
		return none{}, err
	}
	w.leave(t, a.clean)
	return none{}, nil
}

func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	return request(ctx, s.d, "Renew", func() ([]driver.Renewed, error) { return s.renew(known) })
}

func (s *session) renew(known []driver.Ticket) ([]driver.Renewed, error) {
	w := s.d.world
	if s.over {
		return nil, driver.ErrSession
	}
	s.rounds++
	answer := make([]driver.Renewed, 0, len(known))
	for _, k := range known {
		r := driver.Renewed{ID: k.ID, Queue: k.Queue, State: driver.Gone}
		t, err := s.own(k, true)
		switch {
		case err != nil:
		case t.evicted:
			r.State = driver.Evicted
		default:
			if t.fixed == nil {
				t.proof, t.end = w.now, w.now.Add(s.ttl)
				s.tickets.remove(t)
				s.tickets.push(t)
			}
			r.State, r.Proof = driver.Kept, t.proof
		}
		if t != nil {
			if t.owner == s {
				t.round = s.rounds
			}
			w.remind(t)
		}
		answer = append(answer, r)
	}
	for t := s.tickets.first; t != nil; t = s.tickets.next(t) {
		if t.round != s.rounds {
			answer = append(answer, driver.Renewed{ID: t.text, Queue: t.queue.name, State: driver.Stray})
		}
	}
	return answer, nil
}

func (s *session) Close(ctx context.Context) error {
	return change(ctx, s.d, "Close", func() error {
		if s.over {
			return driver.ErrSession
		}
		s.end()
		return nil
	})
}

// end makes all tickets leave that have no fixed end. Those that wait are not
// granted any more, since the session is over.
func (s *session) end() {
	w := s.d.world
	s.over = true
	delete(s.d.sessions, s)
	for s.tickets.first != nil {
		w.leave(s.tickets.first, false)
	}
	w.unset(&s.alarm)
	s.forced = nil
	s.bell.ring()
}
