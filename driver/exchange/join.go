package exchange

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if err := s.usable(ctx); err != nil {
		return driver.Ticket{}, err
	}
	if err := errors.Join(checkRef(Ref{r.Queue, r.ID}), driver.CheckRequest(&r)); err != nil {
		return driver.Ticket{}, err
	}
	r.Hold = min(r.Hold, maxHold)
	p, stood, err := s.take(&r)
	if err != nil {
		return driver.Ticket{}, err
	}
	var t driver.Ticket
	if stood {
		t, err = s.rejoin(ctx, p, &r)
	} else {
		t, err = s.join(ctx, p, &r)
	}
	if err == nil && r.NoWait && !t.Held || r.Retry && errors.Is(err, driver.ErrBusy) { // one that was sent before may yet arrive
		if err := s.Leave(ctx, driver.Ticket{ID: r.ID, Queue: r.Queue}, true); err != nil && !errors.Is(err, driver.ErrGone) {
			return driver.Ticket{}, err
		}
		return driver.Ticket{}, driver.ErrBusy
	}
	if s.isOver() { // it was closed meanwhile, and what Join has returned does not stand
		return driver.Ticket{}, driver.ErrSession
	}
	return t, err
}

// take finds or makes the place of a ticket. It is there before the Join is sent,
// since the news of the grant may come before the Join's answer.
func (s *session) take(r *driver.Request) (p *place, stood bool, err error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	p = s.d.places[r.ID]
	switch {
	case p == nil && r.Retry && s.left.Has(r.ID):
		return nil, false, driver.ErrGone
	case p == nil:
		p = &place{id: r.ID, queue: r.Queue, s: s, hold: r.Hold, sent: r.Retry}
		s.places[p.id], s.d.places[p.id] = p, p
	case p.s != s:
		return nil, false, driver.ErrGone
	case p.queue != r.Queue:
		return nil, false, driver.ErrMismatch
	default:
		r.Retry = p.sent || p.joining > 0
	}
	if stood = p.state != unknown; !stood {
		p.joining++
		p.joined = driver.Now()
	}
	return p, stood, nil
}

// rejoin answers a Join of a ticket that has stood: it must not come back if it
// has ended since.
func (s *session) rejoin(ctx context.Context, p *place, r *driver.Request) (driver.Ticket, error) {
	if err := s.look(ctx, p); err != nil {
		return driver.Ticket{}, err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if p.state == gone {
		return driver.Ticket{}, driver.ErrGone
	}
	p.told = p.state == held
	return p.ticket(), nil
}

func (s *session) join(ctx context.Context, p *place, r *driver.Request) (driver.Ticket, error) {
	s.arrived(ctx, p)
	renewed, repairs := s.lastRenewal()
	var sent driver.Instant // 0: it was not
	ended := make(chan struct{})
	begins := func() {
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		p.sent, sent = true, driver.Now()
	}
	st, err := askInTurn(ctx, s.d, p.queue, begins, func(ctx context.Context) (Standing, error) {
		defer close(ended)
		return s.d.store.Join(ctx, Join{Request: *r, Session: s.id, Owner: s.owner})
	})
	_ = s.heard(err)
	if err == nil && st.More {
		defer s.d.settle(p.queue)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	p.joining--
	if sent != 0 {
		p.arriving = ended
	}
	switch {
	case err == nil && p.state == gone: // it was left, or taken away, before this answer
		return driver.Ticket{}, driver.ErrGone
	case errors.Is(err, driver.ErrGone):
		s.d.ended(p)
	case err != nil && driver.IsPermanent(err):
		if p.joining == 0 && !p.doubt {
			s.d.forget(p)
		}
	case err != nil:
		p.doubt = p.sent
	}
	if err != nil {
		return driver.Ticket{}, err
	}
	p.seen(st, sent)
	switch own := st.Evicted || st.Stray; {
	case own:
		p.prove(sent.Add(min(st.Left-s.ttl, 0)))
	case r.Retry: // it may have come long ago
		p.prove(renewed)
	default:
		p.prove(sent)
	}
	p.told = p.state == held // the news of its grant may have been faster
	if p.state == waiting && s.d.repairs != repairs {
		p.again = driver.Now() // the news may have come before anybody listened, and the look after that, too early
	}
	return p.ticket(), nil
}

// arrived waits for a Join of the ticket that goes on without its caller. One that comes
// after it has to find its ticket: if it said that there is none, that would not be true for long.
func (s *session) arrived(ctx context.Context, p *place) {
	s.d.mu.Lock()
	arriving := p.arriving
	s.d.mu.Unlock()
	if arriving == nil {
		return
	}
	select {
	case <-arriving:
	case <-ctx.Done():
	case <-s.d.ctx.Done():
	}
}

// lastRenewal is when a renewal of the session was sent that is known to have
// succeeded, and how often this client has looked at all that waited.
func (s *session) lastRenewal() (proof driver.Instant, repairs int) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.proof, s.d.repairs
}
