package exchange

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
)

// Join makes one exchange, unless the ticket has stood already: then it looks what has become of
// it.
func (s *session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if err := s.usable(ctx); err != nil {
		return driver.Ticket{}, err
	}
	r.Hold = min(r.Hold, maxHold)
	e, stood, err := s.begin(&r)
	if err != nil {
		return driver.Ticket{}, err
	}
	var t driver.Ticket
	if stood {
		t, err = s.rejoin(ctx, e)
	} else {
		t, err = s.join(ctx, e, &r)
	}
	if err == nil && t.Held {
		t, err = s.confirm(ctx, e, t)
	}
	if err == nil && r.NoWait && !t.Held || r.Retry && errors.Is(err, driver.ErrBusy) {
		// A waiter must not stay; and after ErrBusy, a Join that was sent before may yet arrive.
		if err := s.Leave(ctx, driver.Ticket{ID: r.ID, Queue: r.Queue}, true); err != nil && !errors.Is(err, driver.ErrGone) {
			return driver.Ticket{}, err
		}
		return driver.Ticket{}, driver.ErrBusy
	}
	if s.isOver() { // Close was called meanwhile, and may not have known of the ticket
		if err == nil {
			l := Leave{Ref: s.d.refOf(e), Session: s.row}
			s.d.submit(ctx, laneOf{class: ofHolder}, &l)
			s.hasLeft(l.Ref)
		}
		return driver.Ticket{}, driver.ErrSession
	}
	return t, err
}

// rejoin looks at a ticket that has stood. It sends no Join: the ticket may have expired since,
// and must not come back.
func (s *session) rejoin(ctx context.Context, e *entry) (driver.Ticket, error) {
	if err := s.look(ctx, s.d.refOf(e)); err != nil {
		return driver.Ticket{}, err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if e.state == gone {
		return driver.Ticket{}, driver.ErrGone
	}
	e.returned = e.state == held
	return e.ticket(), nil
}

// join sends a Join and takes its reply.
func (s *session) join(ctx context.Context, e *entry, r *driver.Request) (driver.Ticket, error) {
	s.awaitEarlierJoin(ctx, e)
	s.d.mu.Lock()
	before, sent := e.wasSent, s.d.now()
	e.wasSent, e.begun = true, sent
	renewed, resyncs := s.proof, s.d.resyncs
	s.d.mu.Unlock()
	m := s.d.submit(ctx, laneOf{}, &Join{Request: *r, Session: s.row, Number: e.number})
	st, err := m.Status, m.Err
	_ = s.noteOver(err)
	if st.Unsettled {
		defer s.d.settle(e.queue)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	e.underWay--
	if !m.unsent {
		e.ended = m.ended
	}
	switch {
	case err == nil && e.state == gone: // the ticket was left, or removed, before this reply
		return driver.Ticket{}, driver.ErrGone
	case err == nil:
	case errors.Is(err, driver.ErrGone):
		s.d.retire(e)
	case m.unsent, errors.As(err, new(notSent)):
		if e.state == unknown && !e.mayArrive() {
			e.wasSent = before
		}
	case driver.IsPermanent(err):
		if e.underWay == 0 && !e.noReply {
			s.d.drop(e)
		}
	default:
		e.noReply = e.wasSent
	}
	if err != nil {
		return driver.Ticket{}, err
	}
	if st.Sent != 0 {
		sent = st.Sent
	}
	e.observe(st, sent)
	e.twice = e.twice || r.Retry
	if st.Found && !r.Retry {
		s.d.doubled = s.d.now()
	}
	switch {
	case st.Evicted || st.Stray: // its own end may be soon
		e.prove(sent.Add(min(st.Left-s.ttl, 0)))
	case s.d.traits.WithSession && st.Sent != 0:
		e.prove(sent)
	case s.d.traits.WithSession, r.Retry && s.d.detach != nil: // an earlier Join may have made it long ago: only a heartbeat proves more
		e.prove(renewed)
	default:
		e.prove(sent)
	}
	e.returned = e.state == held // also if the event of the grant was faster
	if e.state == waiting && s.d.resyncs != resyncs {
		// The event of its grant may have come before the client listened, and the resync after
		// that before this reply: so it looks at once.
		e.due = s.d.now()
	}
	return e.ticket(), nil
}

// awaitEarlierJoin waits for the exchange of an earlier Join of the ticket, whose caller has given
// up. A Join that overtook it would find no ticket, and then there would be one.
func (s *session) awaitEarlierJoin(ctx context.Context, e *entry) {
	s.d.mu.Lock()
	ended := e.ended
	s.d.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	case <-s.d.ctx.Done():
	}
}
