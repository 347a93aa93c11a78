package exchange

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	l := Leave{Ref: Ref{t.Queue, t.ID}, Session: s.id, Clean: clean}
	if err := checkRef(l.Ref); err != nil {
		return err
	}
	if s.dropped(l.Ref) {
		return driver.ErrGone
	}
	var state state
	l.Refuse, l.Waited, state = s.leaving(l.Ref)
	if state == waiting && l.Refuse == 0 {
		err := s.withdraw(ctx, l.Ref, clean)
		if err == nil || errors.Is(err, driver.ErrGone) {
			s.hasLeft(l.Ref)
		}
		return s.heard(err)
	}
	if state == held {
		ctx = withHeld(ctx)
	} else {
		ctx = withWithdrawal(ctx)
	}
	left, err := ask(ctx, s.d, func(ctx context.Context) (Left, error) { return s.d.store.Leave(ctx, l) })
	if err == nil && left.More {
		defer s.d.settle(t.Queue)
	}
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.hasLeft(l.Ref)
	}
	return s.heard(err)
}

// dropped forgets a ticket of which no Join has been sent: its caller gave up while it
// waited for a connection.
func (s *session) dropped(t Ref) bool {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	p := s.d.places[t.ID]
	if p == nil || p.s != s || p.queue != t.Queue || p.sent || p.joining > 0 {
		return false
	}
	s.d.ended(p)
	return true
}

// leaving says for how long a Join with the ID of a ticket that does not stand is to be
// refused, since a Join of this session may still be under way, whether the ticket
// has waited, and how it stands.
func (s *session) leaving(t Ref) (refuse time.Duration, waited bool, of state) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	p := s.d.places[t.ID]
	if p != nil && p.s == s && p.queue == t.Queue {
		waited, of = p.waited, p.state
	}
	switch {
	case p == nil && s.left.Has(t.ID),
		p != nil && (p.s != s || p.queue != t.Queue),
		p != nil && p.joining == 0 && !p.doubt:
		return 0, waited, of
	}
	return s.ttl, waited, of
}

func (s *session) hasLeft(t Ref) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	p := s.d.places[t.ID]
	switch {
	case p == nil:
		s.left.Add(t.ID)
	case p.queue == t.Queue && (p.s == s || p.fixed):
		s.d.ended(p)
	}
}

func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if units < 1 {
		return driver.Invalid(fmt.Errorf("%d units: at least 1 must stay", units))
	}
	ref := Ref{t.Queue, t.ID}
	if err := checkRef(ref); err != nil {
		return err
	}
	left, err := ask(withHeld(ctx), s.d, func(ctx context.Context) (Left, error) {
		return s.d.store.Shrink(ctx, s.id, ref, units)
	})
	if err == nil && left.More {
		s.d.settle(t.Queue)
	}
	return s.heard(err)
}

func (s *session) Keep(ctx context.Context, t driver.Ticket, in time.Duration) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if in <= 0 {
		return driver.Invalid(fmt.Errorf("keep for %v: it must be longer than 0", in))
	}
	in = min(in, maxHold)
	ref := Ref{t.Queue, t.ID}
	if err := checkRef(ref); err != nil {
		return err
	}
	sent := driver.Now()
	err := s.d.do(withHeld(ctx), func(ctx context.Context) error { return s.d.store.Keep(ctx, s.id, s.owner, ref, in) })
	if err != nil {
		return s.heard(err)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if p := s.d.places[t.ID]; p != nil {
		p.fixed, p.hold, p.proof = true, in, sent
	}
	return nil
}
