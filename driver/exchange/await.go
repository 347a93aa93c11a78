package exchange

import (
	"context"
	"math"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Await waits for news of the grant. Those near the front have a timer too: they look
// when the holder's time is over, since nobody sends news of a death.
func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	defer s.d.attend()()
	var timer *time.Timer
	var pauses backoff.Backoff
	for {
		if err := s.usable(ctx); err != nil {
			return driver.Ticket{}, err
		}
		s.d.mu.Lock()
		p := s.places[t.ID]
		if p == nil || p.queue != t.Queue || p.state == gone {
			s.d.mu.Unlock()
			return driver.Ticket{}, driver.ErrGone
		}
		if p.state == held && !p.told && (p.proof != 0 || p.hold == 0) {
			p.told = true
			t := p.ticket()
			s.d.mu.Unlock()
			return t, nil
		}
		in := time.Duration(math.MaxInt64)
		first := false
		switch {
		case p.state == unknown, p.state == held:
			in = 0 // what was heard of it is not news
		case p.again > 0:
			in, first = max(0, p.again.Sub(driver.Now())), true
		}
		news := p.next()
		s.d.mu.Unlock()

		if in <= 0 {
			err := s.lookNow(ctx, p, first)
			if driver.IsPermanent(err) {
				return driver.Ticket{}, err
			}
			if err == nil {
				pauses = backoff.Backoff{}
				continue
			}
			in = pauses.Next()
		}
		if timer == nil {
			timer = time.NewTimer(in)
			defer timer.Stop()
		} else {
			timer.Reset(in)
		}
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
		case <-s.over:
		case <-s.d.ctx.Done():
		}
	}
}

// lookNow asks about a ticket, after it has had taken out what has ended in front
// of it. It gives up soon: a connection may lead nowhere, and what another one has
// brought meanwhile is to be heeded.
func (s *session) lookNow(outer context.Context, p *place, first bool) error {
	ctx, cancel := context.WithTimeout(outer, lookTimeout)
	defer cancel()
	var err error
	if first {
		err = s.d.settleAll(ctx, p.queue)
	}
	if err == nil {
		err = s.look(ctx, p)
	}
	if err != nil && ctx.Err() != nil && outer.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	p.told = false
	if p.state == unknown && p.joining == 0 { // no Join of it has arrived so far
		return driver.ErrGone
	}
	return nil
}

// look asks what has become of one ticket.
func (s *session) look(ctx context.Context, p *place) error { return s.lookAt(ctx, []Ref{p.ref()}) }

func (s *session) lookAt(ctx context.Context, refs []Ref) error {
	asked := s.d.asking(refs)
	sent := driver.Now()
	got, err := ask(ctx, s.d, func(ctx context.Context) (Renewed, error) { return s.d.store.Look(ctx, s.id, refs) })
	if err == nil {
		s.see(asked, got, sent, 0)
	}
	return err
}
