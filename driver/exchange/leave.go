package exchange

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Leave makes one exchange, which waiters that leave together share. The network may bring it twice, and then
// the second copy finds no ticket: if that has happened to the Join, or to another one in the last minute, an exchange
// before this one tells whether the ticket stands.
func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	l := Leave{Ref: Ref{Queue: t.Queue, ID: t.ID}, Session: s.row, Clean: clean}
	state, twice, sent := s.leaving(&l)
	if !sent {
		return driver.ErrGone
	}
	if twice {
		found, err := s.lookAfter(ctx, []Ref{l.Ref}, 0)
		if err != nil {
			return err
		}
		twice = found[0].State == Held
	}
	of := laneOf{class: ofWaiter}
	switch {
	case state == held:
		of.class = ofHolder
	case state == waiting && l.Tombstone == 0:
		l.Withdraws = true
		of.s, of.queue, of.clean = s, t.Queue, clean
	}
	m := s.d.submit(ctx, of, &l)
	if m.Unsettled {
		s.d.settle(t.Queue)
	}
	if m.Err == nil || errors.Is(m.Err, driver.ErrGone) {
		s.hasLeft(l.Ref)
	}
	if twice && errors.Is(m.Err, driver.ErrGone) {
		return nil
	}
	return s.noteOver(m.Err)
}

// leaving adds what the client knows of a ticket that is to leave. It needs a tombstone if a Join of
// it may still be under way. If none was sent, since its caller gave up while the Join waited for a
// connection, it is retired: then no exchange is needed. Twice: a holder, and its Leave may come twice.
func (s *session) leaving(l *Leave) (is state, twice, sent bool) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	e := s.d.entries[l.ID]
	if e == nil {
		if !s.left.Has(l.ID) {
			l.Tombstone = s.ttl
		}
		return unknown, false, true
	}
	if e.queue != l.Queue {
		return unknown, false, true
	}
	l.Tag = e.tag
	switch {
	case e.s != s:
		return unknown, false, true
	case !e.wasSent && e.underWay == 0:
		s.d.retire(e)
		return gone, false, false
	case e.mayArrive():
		l.Tombstone = s.ttl
	}
	l.Waited = e.waited
	twice = e.twice || s.d.doubled != 0 && s.d.now().Sub(s.d.doubled) < time.Minute
	return e.state, twice && e.state == held, true
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
