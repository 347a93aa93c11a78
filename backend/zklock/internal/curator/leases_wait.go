package curator

import (
	"context"
	"errors"
	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// pursue brings a ticket that waits to its leases. It does not wait for Await to be
// called, for a ticket that is first in locks keeps all behind it there.
func (s *session) pursue(ctx context.Context, p *place) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	a := &awaiting{s: s, p: p, bell: make(chan struct{}, 1), on: map[string]*zk.Watch{}}
	defer a.end()
	if err := p.await.take(ctx); err != nil { // Join comes first
		return
	}
	s.mu.Lock()
	p.loan.pursued = true
	s.mu.Unlock()
	p.await.give()
	pause := 10 * time.Millisecond
	for p.known() == waiting && ctx.Err() == nil {
		var err error
		if p.lends() {
			err = a.borrow(ctx)
		} else {
			err = a.step(ctx)
		}
		if err == nil {
			pause = 10 * time.Millisecond
			continue
		}
		if errors.Is(err, driver.ErrGone) {
			continue
		}
		if err = s.failed(ctx, err); driver.IsPermanent(err) {
			s.mu.Lock()
			p.loan.trouble = err
			p.changed()
			s.mu.Unlock()
			return
		}
		select { // the connection was lost
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		case <-ctx.Done():
		}
	}
}

// borrow waits for the next change of leases.
func (a *awaiting) borrow(ctx context.Context) error {
	if err := a.p.await.take(ctx); err != nil {
		return err
	}
	if a.p.known() != waiting {
		a.p.await.give()
		return nil
	}
	w := a.s.l.watch(a.p.q.leases.path, true, a.bell)
	defer a.s.l.Ignore(w)
	a.s.mu.Lock()
	news := a.p.news
	a.s.mu.Unlock()
	err := a.s.grantLeases(ctx, a.p, true)
	a.p.await.give()
	if err != nil || a.p.known() != waiting {
		return err
	}
	for {
		if _, fired := w.Fired(); fired {
			return nil
		}
		select {
		case <-a.bell:
		case <-news:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitLeases waits for pursue.
func (s *session) awaitLeases(ctx context.Context, p *place) (driver.Ticket, error) {
	if err := s.verified(ctx, p); err != nil {
		return driver.Ticket{}, err
	}
	for {
		s.mu.Lock()
		now, news, trouble := p.state, p.news, p.loan.trouble
		s.mu.Unlock()
		if err := s.usable(ctx); err != nil {
			return driver.Ticket{}, err
		}
		if now == held || now == gone {
			if now == gone && trouble != nil {
				return driver.Ticket{}, trouble
			}
			return p.ticket()
		}
		if trouble != nil {
			return driver.Ticket{}, trouble
		}
		select {
		case <-news:
		case <-ctx.Done():
		case <-s.over:
		case <-s.d.ctx.Done():
		}
	}
}

// patience is how long Join waits for those in front of a ticket who are about to
// hold, too, and are on their way from locks to leases.
const patience = time.Second

// mayFit reports whether a ticket that waits may be one that is about to hold, as far as
// those in front of it in locks tell.
func (p *place) mayFit() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.state == waiting && p.loan.asked <= p.req.Capacity
}

// asked is how many units the ticket at i and all before it ask for.
func (l line) asked(i int) (sum int64) {
	for j := range l[:i+1] {
		sum = add(sum, max(l[j].wants, 1))
	}
	return sum
}

// linger makes of a ticket that has joined one that is held, if it fits.
func (s *session) linger(ctx context.Context, p *place, noWait bool) (driver.Ticket, error) {
	if p.mayFit() {
		all, err := s.d.line(ctx, s.l, s.d.lane(p.q.name))
		if err != nil {
			return driver.Ticket{}, err
		}
		if i, ok := all.place(p.req.ID); ok && all.holds(i) {
			short, cancel := context.WithTimeout(ctx, patience)
			_, _ = s.awaitLeases(short, p)
			cancel()
		}
	}
	if noWait && p.known() == waiting {
		if err := s.giveBack(ctx, p, false); err != nil && !errors.Is(err, driver.ErrGone) {
			return driver.Ticket{}, err
		}
		return driver.Ticket{}, driver.ErrBusy
	}
	return p.ticket()
}

// leasesWanted signals that somebody is first in locks and waits for leases.
func (s *session) leasesWanted(q *lane, there int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.places {
		if p.q == q && p.state == held && !p.told && int64(there) > p.req.Capacity {
			p.told = true
			s.signals.Add(driver.Wanted, q.name, id)
		}
	}
}
