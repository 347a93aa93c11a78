package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// errUnlimited: see the package's documentation.
var errUnlimited = fmt.Errorf("quorum: several permits of a semaphore have no limit over a majority; a mutex, an election or a read-write lock has, and a semaphore on one backend: %w", errors.ErrUnsupported)

func (s *session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if err := s.usable(ctx); err != nil {
		return driver.Ticket{}, err
	}
	if r.Kind == driver.Semaphore && r.Units < r.Capacity {
		return driver.Ticket{}, errUnlimited
	}
	s.mu.Lock()
	t := s.tickets[r.ID]
	switch {
	case s.closed:
		s.mu.Unlock()
		return driver.Ticket{}, driver.ErrSession
	case t != nil:
		s.mu.Unlock()
		return t.joinAgain(ctx, r)
	case s.left.Has(r.ID):
		s.mu.Unlock()
		return driver.Ticket{}, driver.ErrGone
	}
	t = s.newTicket(r)
	s.tickets[r.ID] = t
	s.mu.Unlock()
	s.d.background(t.pursue)
	return t.outcome(ctx, false)
}

// joinAgain answers a Join that was sent before.
func (t *ticket) joinAgain(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	s := t.s
	if t.req.Queue != r.Queue || t.req.Kind != r.Kind || t.req.Capacity != r.Capacity {
		return driver.Ticket{}, driver.ErrMismatch
	}
	s.mu.Lock()
	t.req.Retry = true
	was := t.state
	s.mu.Unlock()
	switch was {
	case held:
		if err := t.confirm(ctx); err != nil {
			return driver.Ticket{}, err
		}
	case pursued:
		t.lookAtLine(ctx)
	}
	tk, err := t.outcome(ctx, false)
	if err != nil || tk.Held || !r.NoWait {
		return tk, err
	}
	s.mu.Lock()
	if t.state == pursued {
		s.left.Add(r.ID)
		t.end(driver.ErrBusy, true)
	}
	s.mu.Unlock()
	return t.outcome(ctx, true)
}

// lookAtLine joins again at the line, since the event of a grant may be under way. The place has to be
// verified again then: the member may have lost its data.
func (t *ticket) lookAtLine(ctx context.Context) {
	s := t.s
	s.mu.Lock()
	i := t.line
	if i < 0 || t.places[i].state != waiting {
		s.mu.Unlock()
		return
	}
	t.places[i].verified = false
	p, d := t.places[i], s.links[i].d
	s.mu.Unlock()
	done := make(chan struct{})
	s.d.background(func() {
		defer close(done)
		r := t.req
		r.ID, r.NoWait, r.Retry, r.Note, r.Hold = p.id, false, true, t.note, t.hold
		ctx, cancel := context.WithTimeout(s.ctx, s.patience)
		tk, err := p.at.Join(ctx, r)
		cancel()
		if errors.Is(err, driver.ErrGone) {
			t.taken(i, p.id)
			return
		}
		s.mu.Lock()
		switch q := &t.places[i]; {
		case q.id != p.id:
		case err != nil && t.state != left:
			t.doubt(i, err)
			t.poke()
		case err == nil && tk.Held && q.state == waiting:
			t.granted(i, tk)
		}
		s.mu.Unlock()
		if err == nil {
			t.verify(i, p.id, p.life, d)
		}
	})
	select {
	case <-done:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
}

// outcome waits until the ticket is held or has left, or without grant until it waits in line. What an
// attempt that came to nothing has got is given back by then.
func (t *ticket) outcome(ctx context.Context, grant bool) (driver.Ticket, error) {
	s := t.s
	for {
		s.mu.Lock()
		news := t.news
		switch {
		case s.d.ctx.Err() != nil:
			s.mu.Unlock()
			return driver.Ticket{}, errClosed
		case t.state == held, t.state == pursued && t.answered && !grant:
			tk := t.report()
			s.mu.Unlock()
			return tk, nil
		case t.state == left && (t.quiet() || s.closed):
			err := t.err
			s.mu.Unlock()
			return driver.Ticket{}, err
		}
		s.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return driver.Ticket{}, ctx.Err()
		case <-s.d.ctx.Done():
			return driver.Ticket{}, errClosed
		}
	}
}

func (s *session) find(t driver.Ticket) *ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.tickets[t.ID]; f != nil && f.req.Queue == t.Queue {
		return f
	}
	return nil
}

func (s *session) Await(ctx context.Context, tk driver.Ticket) (driver.Ticket, error) {
	if err := s.usable(ctx); err != nil {
		return driver.Ticket{}, err
	}
	t := s.find(tk)
	if t == nil || t.foreign {
		return driver.Ticket{}, driver.ErrGone
	}
	s.mu.Lock()
	was := t.state
	s.mu.Unlock()
	if was == held {
		if err := t.confirm(ctx); err != nil {
			return driver.Ticket{}, err
		}
	}
	return t.outcome(ctx, true)
}

// confirm asks the members whether a ticket that was held still stands. ErrGone if a majority cannot
// hold it any more.
func (t *ticket) confirm(ctx context.Context) error {
	_, err := t.each(ctx, func(ctx context.Context, at *driver.Opened, tk driver.Ticket) error {
		_, err := at.Await(ctx, tk)
		return err
	}, nil)
	return err
}

// each makes a call for each place that is held, all at once, and waits for the answers. done is called
// for each success with s.mu held. It returns how many have succeeded. A ticket that fewer than a
// majority can still hold has left: ErrGone.
func (t *ticket) each(ctx context.Context, call func(context.Context, *driver.Opened, driver.Ticket) error, done func(i int)) (good int, err error) {
	type result struct {
		i   int
		id  string
		at  *driver.Opened
		err error
	}
	s := t.s
	s.mu.Lock()
	results := make(chan result, len(t.places))
	asked := 0
	for i := range t.places {
		p := &t.places[i]
		l := s.links[i]
		if p.state != granted && p.state != waiting {
			continue
		}
		if l.at == nil {
			continue
		}
		at, id := l.at, p.id
		asked++
		quick := l.muted
		s.d.background(func() {
			limit := s.patience
			if quick {
				limit /= 4
			}
			ctx, cancel := context.WithTimeout(s.ctx, limit)
			defer cancel()
			results <- result{i, id, at, call(ctx, at, driver.Ticket{ID: id, Queue: t.req.Queue})}
		})
	}
	s.mu.Unlock()
	for range asked {
		var r result
		select {
		case r = <-results:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-s.ctx.Done():
			if s.d.ctx.Err() != nil {
				return 0, errClosed
			}
			return 0, driver.ErrSession
		}
		s.mu.Lock()
		l, mine := s.links[r.i], t.places[r.i].id == r.id
		switch {
		case r.err == nil:
			good++
			if done != nil && mine {
				done(r.i)
			}
		case errors.Is(r.err, driver.ErrSession):
			l.over(r.at)
		case errors.Is(r.err, driver.ErrGone):
			if mine {
				t.lost(r.i)
			}
		case s.ctx.Err() == nil && !driver.IsPermanent(r.err):
			l.silent(r.at, r.err)
		default:
			err = r.err
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state == held && !t.parting && t.standing(s.d.now()) < s.d.majority {
		s.left.Add(t.req.ID)
		t.end(driver.ErrGone, false)
	}
	if t.state == left {
		return good, t.err
	}
	return good, err
}

func (s *session) Shrink(ctx context.Context, tk driver.Ticket, units int64) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	t := s.find(tk)
	if t == nil || t.foreign {
		return driver.ErrGone
	}
	s.mu.Lock()
	fewer := units < t.units
	if fewer {
		t.units = units
	}
	wasHeld := t.state == held
	s.mu.Unlock()
	if !fewer && !wasHeld {
		return nil
	}
	good, err := t.shrink(ctx)
	switch {
	case err != nil:
		return err
	case wasHeld && good < s.d.majority:
		return s.unanswered()
	}
	return nil
}

// shrink makes the places as small as the ticket.
func (t *ticket) shrink(ctx context.Context) (good int, err error) {
	t.s.mu.Lock()
	units := t.units
	t.s.mu.Unlock()
	return t.each(ctx, func(ctx context.Context, at *driver.Opened, tk driver.Ticket) error {
		return at.Shrink(ctx, tk, units)
	}, func(i int) { t.places[i].units = units })
}

// unanswered is the error of a call that fewer than a majority have answered.
func (s *session) unanswered() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tooFew()
}

func (s *session) Keep(ctx context.Context, tk driver.Ticket, d time.Duration) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	t, err := s.findAny(ctx, tk)
	if err != nil {
		return err
	}
	s.mu.Lock()
	waits := t.state == pursued
	s.mu.Unlock()
	if waits {
		return driver.Invalid(errors.New("keep: the ticket is not held"))
	}
	now := s.d.now()
	good, err := t.each(ctx, func(ctx context.Context, at *driver.Opened, tk driver.Ticket) error {
		return at.Keep(ctx, tk, d)
	}, func(i int) {
		p := &t.places[i]
		p.proof, p.hold, p.end = now, d, 0
	})
	switch {
	case err != nil:
		return err
	case good < s.d.majority:
		return s.unanswered()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.hold = d
	return nil
}

func (s *session) Leave(ctx context.Context, tk driver.Ticket, clean bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	t := s.find(tk)
	if t == nil {
		s.mu.Lock()
		s.left.Add(tk.ID)
		s.mu.Unlock()
		var err error
		if t, err = s.findAny(ctx, tk); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.left.Add(tk.ID)
	if t.state == pursued {
		t.end(driver.ErrGone, clean)
		s.mu.Unlock()
		return t.departed(ctx)
	}
	t.parting = true
	s.mu.Unlock()
	_, err := t.each(ctx, func(ctx context.Context, at *driver.Opened, tk driver.Ticket) error {
		err := at.Leave(ctx, tk, clean)
		if err == nil { // a heartbeat may have told already that the place is gone
			s.mu.Lock()
			t.gone++
			s.mu.Unlock()
		}
		return err
	}, t.lost)
	s.mu.Lock()
	rest := t.count(place.counts)
	switch {
	case t.gone >= s.d.majority:
		t.end(driver.ErrGone, clean)
		s.mu.Unlock()
		// The rest is given back when that is possible, which is hardly ever later.
		ctx, cancel := context.WithTimeout(ctx, s.patience/4)
		defer cancel()
		_, _ = t.outcome(ctx, true)
		return nil
	case t.gone+rest < s.d.majority:
		t.end(driver.ErrGone, false)
		err = driver.ErrGone
	case err == nil:
		err = s.tooFew()
	}
	s.mu.Unlock()
	return err
}

// departed waits until a ticket that waited has left.
func (t *ticket) departed(ctx context.Context) error {
	_, err := t.outcome(ctx, true)
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}
