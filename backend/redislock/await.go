package redislock

import (
	"context"
	"math"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Await waits for news of the grant. The first in line has a timer too: it looks
// when the holder's time is over, since nobody sends news of a death.
func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	var timer *time.Timer
	var pauses backoff.Backoff
	for {
		if err := s.usable(ctx); err != nil {
			return driver.Ticket{}, err
		}
		s.d.mu.Lock()
		p := s.places[t.ID]
		if p == nil || p.q.name != t.Queue || p.state == gone {
			s.d.mu.Unlock()
			return driver.Ticket{}, driver.ErrGone
		}
		if p.state == held && !p.told {
			p.told = true
			t := p.ticket()
			s.d.mu.Unlock()
			return s.confirm(ctx, p, t)
		}
		in := time.Duration(math.MaxInt64)
		switch {
		case p.state == unknown, p.state == held:
			in = 0 // what was heard of it is not news
		case p.again > 0:
			in = max(0, p.again.Sub(s.d.Now()))
		}
		news := p.next()
		s.d.mu.Unlock()

		if in <= 0 {
			err := s.look(ctx, p)
			if driver.IsPermanent(err) {
				return driver.Ticket{}, err
			}
			if err == nil {
				s.d.mu.Lock()
				p.told = false
				s.d.mu.Unlock()
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

// ask asks about one ticket, and with extend = 1 extends it.
func (s *session) ask(ctx context.Context, p *place, extend int) (driver.State, error) {
	g := group{s: s, q: p.q, ids: []string{p.id}, extend: extend}
	sent := s.d.Now()
	got, err := s.d.runN(ctx, g.call(), 6)
	became, err := g.seen(sent, got, err)
	if len(became) == 0 {
		return driver.Kept, err
	}
	return became[0].State, err
}

// look asks the server about one ticket, which also has it pass on what a dead
// holder has left.
func (s *session) look(ctx context.Context, p *place) error {
	_, err := s.ask(ctx, p, 0)
	return err
}
