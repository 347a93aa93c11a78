package exchange

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/recent"
	"github.com/interlock-go/interlock/internal/signals"
)

type session struct {
	d   *Driver
	row Session
	ttl time.Duration // that of the row

	over     chan struct{} // closed when the session is over
	why      error         // ErrSession, and what has ended it; set before over is closed
	overOnce sync.Once
	signals  *signals.Queue

	detaching sync.Mutex // held while strays get their ends
	attaching sync.Mutex // held while strays that are named again lose them

	// Guarded by Driver.mu.
	proof       driver.Instant // when the last heartbeat was sent that has succeeded
	left        recent.IDs     // of tickets that have left: they do not come back
	closed      bool           // End has succeeded
	history     string         // of the server that last said which tickets stand: see reconcile
	reconciling bool           // that is under way
	tidyAt      time.Time      // when it has the backend tidied next

	orphans map[Ref]driver.Instant // until when heartbeats name them
}

func newSession(d *Driver, row Session) *session {
	return &session{
		d: d, row: row, ttl: row.TTL, tidyAt: nextTidy(),
		over: make(chan struct{}), orphans: map[Ref]driver.Instant{}, left: recent.IDs{Span: row.TTL}, signals: signals.New(),
	}
}

// Row is for tests of a store: see exchangetest.RowOf.
func (s *session) Row() Session { return s.row }

// Driver is for tests of a store.
func (s *session) Driver() *Driver { return s.d }

// Store is for tests of a store.
func (d *Driver) Store() Store { return d.store }

// Signals waits for the next signal.
func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	return s.signals.Next(ctx, s.usable, s.over, s.d.ctx.Done())
}

// usable reports why the session cannot be used.
func (s *session) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.isOver() {
		return s.why
	}
	return s.d.usable(ctx)
}

func (s *session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// end has every later call fail, and those that wait. Calls that follow something look: what has ended
// the session may concern them.
func (s *session) end(why error) {
	s.overOnce.Do(func() {
		s.why = why
		close(s.over)
		s.d.topics.AllChanged()
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		for e := range s.entries {
			e.notify()
		}
	})
}

// noteOver returns the error of an exchange, which may say that the session is over.
func (s *session) noteOver(err error) error {
	if errors.Is(err, driver.ErrSession) {
		s.end(err)
	}
	return err
}

// Close ends the session in one exchange, and settles the queues of its tickets. The caller
// repeats it until it has succeeded; later calls return ErrSession.
func (s *session) Close(ctx context.Context) error {
	if err := s.d.usable(ctx); err != nil {
		return err
	}
	s.end(driver.ErrSession)
	s.d.mu.Lock()
	closed, tickets := s.closed, s.leavers()
	s.d.mu.Unlock()
	if closed {
		return driver.ErrSession
	}
	ctx = s.d.with(ctx, ofHolder)
	queues, err := call(ctx, s.d, func(ctx context.Context) ([]string, error) { return s.d.store.End(ctx, s.row, tickets) })
	if err != nil {
		return err
	}
	s.d.mu.Lock()
	s.closed = true
	for e := range s.entries {
		s.d.drop(e)
	}
	s.d.mu.Unlock()
	for _, q := range queues {
		if err := s.d.settleAll(ctx, q); err != nil {
			s.d.settle(q)
		}
	}
	return nil
}

// leavers are the tickets that leave with the session, waiters first. Driver.mu is held.
func (s *session) leavers() []Leave {
	var waiters, holders []Leave
	for e := range s.entries {
		l := Leave{Ref: e.ref(), Session: s.row, Waited: e.waited, Unfixed: e.state == held}
		if e.mayArrive() {
			l.Tombstone = s.ttl
		}
		switch {
		case e.fixed: // it stays, also if no call has said yet that it is held
		case e.state != held:
			waiters = append(waiters, l)
		default:
			holders = append(holders, l)
		}
	}
	return append(waiters, holders...)
}
