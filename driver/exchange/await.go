package exchange

import (
	"context"
	"math"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Await waits for the event of the grant. A waiter near the front has an expiry timer too, since
// no event tells of a death.
func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	defer s.d.expectEvents()()
	var pauses backoff.Backoff
	for {
		if err := s.usable(ctx); err != nil {
			return driver.Ticket{}, err
		}
		s.d.mu.Lock()
		e := s.entry(t.ID)
		if e == nil || e.queue != t.Queue {
			s.d.mu.Unlock()
			return driver.Ticket{}, driver.ErrGone
		}
		if e.state == held && !e.returned && (e.proof != 0 || e.hold == 0) {
			e.returned = true
			t := e.ticket()
			s.d.mu.Unlock()
			return s.confirm(ctx, e, t)
		}
		in := time.Duration(math.MaxInt64)
		settle := false
		switch {
		case e.state == unknown, e.state == held:
			in = 0 // what the client knows is no proof, or was returned before: the backend is asked
		case e.due > 0:
			in, settle = max(0, e.due.Sub(s.d.now())), true
		}
		changed := e.wait()
		s.d.mu.Unlock()

		if in <= 0 {
			err := s.lookForAwait(ctx, e, settle)
			if driver.IsPermanent(err) {
				return driver.Ticket{}, err
			}
			if err == nil {
				pauses = backoff.Backoff{}
				continue
			}
			in = pauses.Next()
		}
		var due <-chan time.Time
		if in < math.MaxInt64 {
			due = time.After(in)
		}
		select {
		case <-changed:
		case <-due:
		case <-ctx.Done():
		case <-s.over:
		case <-s.d.ctx.Done():
		}
	}
}

// lookForAwait looks at a ticket, after it has settled its queue if its expiry timer has fired.
// It gives up soon without an error: the connection may lead nowhere, and another one may have
// brought what Await waits for.
func (s *session) lookForAwait(outer context.Context, e *entry, settle bool) error {
	ctx, cancel := context.WithTimeout(outer, s.d.listener.lookTimeout())
	defer cancel()
	var err error
	if settle && !s.d.traits.LookSettles {
		err = s.d.settleAll(ctx, e.queue)
	}
	if err == nil {
		err = s.look(ctx, s.d.refOf(e))
	}
	if err != nil && ctx.Err() != nil && outer.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	e.returned = false
	if e.state == unknown && e.underWay == 0 { // no Join of it has arrived so far
		return driver.ErrGone
	}
	return nil
}
