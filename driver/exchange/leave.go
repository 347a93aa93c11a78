package exchange

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
)

// Leave makes one exchange, which waiters that leave together share.
func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	l := Leave{Ref: Ref{Queue: t.Queue, ID: t.ID}, Session: s.row, Clean: clean}
	state, sent := s.leaving(&l)
	if !sent {
		return driver.ErrGone
	}
	of := laneOf{class: ofWaiter}
	switch {
	case state == held:
		of.class = ofHolder
	case state == waiting && l.Tombstone == 0:
		l.Withdraws = true
		of.s, of.queue, of.clean = s, t.Queue, clean
	}
	m := s.d.make(ctx, of, &l)
	if m.Unsettled {
		s.d.settle(t.Queue)
	}
	if m.Err == nil || errors.Is(m.Err, driver.ErrGone) {
		s.hasLeft(l.Ref)
	}
	return s.noteOver(m.Err)
}

// leaving adds what the client knows of a ticket that is to leave. It needs a tombstone if a Join of
// it may still be under way. If none was sent, since its caller gave up while the Join waited for a
// connection, it is retired: then no exchange is needed.
func (s *session) leaving(l *Leave) (is state, sent bool) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	e := s.d.entries[l.ID]
	if e == nil {
		if !s.left.Has(l.ID) {
			l.Tombstone = s.ttl
		}
		return unknown, true
	}
	if e.queue != l.Queue {
		return unknown, true
	}
	l.Tag = e.tag
	switch {
	case e.s != s:
		return unknown, true
	case !e.wasSent && e.underWay == 0:
		s.d.retire(e)
		return gone, false
	case e.mayArrive():
		l.Tombstone = s.ttl
	}
	l.Waited = e.waited
	return e.state, true
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
