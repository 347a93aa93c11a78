package exchange

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Leave makes one exchange, which waiters that leave together share.
func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	l := Leave{Ref: s.d.ref(t), Session: s.row, Clean: clean}
	if s.neverSent(l.Ref) {
		return driver.ErrGone
	}
	var state state
	l.Tombstone, l.Waited, state = s.leaving(l.Ref)
	if state == waiting && l.Tombstone == 0 && s.d.batches != nil {
		err := s.withdraw(ctx, l.Ref, clean)
		if err == nil || errors.Is(err, driver.ErrGone) {
			s.hasLeft(l.Ref)
		}
		return s.noteOver(err)
	}
	if state == held {
		ctx = s.d.with(ctx, ofHolder)
	} else {
		ctx = s.d.with(ctx, withdrawal)
	}
	unsettled, err := call(ctx, s.d, func(ctx context.Context) (bool, error) { return s.d.store.Leave(ctx, l) })
	if unsettled {
		defer s.d.settle(t.Queue)
	}
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.hasLeft(l.Ref)
	}
	return s.noteOver(err)
}

// neverSent retires an entry if no Join of it was sent: its caller gave up while the Join waited
// for a connection. Then no exchange is needed.
func (s *session) neverSent(t Ref) bool {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	e := s.d.entries[t.ID]
	if e == nil || e.s != s || e.queue != t.Queue || e.wasSent || e.underWay > 0 {
		return false
	}
	s.d.retire(e)
	return true
}

// leaving says what the client knows of a ticket that is to leave. It needs a tombstone if a Join
// of it may still be under way.
func (s *session) leaving(t Ref) (tombstone time.Duration, waited bool, is state) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	e := s.d.entries[t.ID]
	if e != nil && e.s == s && e.queue == t.Queue {
		waited, is = e.waited, e.state
	}
	switch {
	case e == nil && s.left.Has(t.ID),
		e != nil && (e.s != s || e.queue != t.Queue),
		e != nil && !e.mayArrive():
		return 0, waited, is
	}
	return s.ttl, waited, is
}

// hasLeft is called when a ticket does not stand any more.
func (s *session) hasLeft(t Ref) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	e := s.d.entries[t.ID]
	switch {
	case e == nil:
		s.left.Add(t.ID)
	case e.queue == t.Queue && (e.s == s || e.fixed):
		s.d.retire(e)
	}
}
