package exchange

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/recent"
	"github.com/interlock-go/interlock/internal/signals"
)

type session struct {
	d     *Driver
	id    string
	ttl   time.Duration
	owner string

	over    chan struct{} // closed by end
	once    sync.Once
	signals *signals.Queue
	tidied  tidied

	stranding   sync.Mutex // held while strays get their ends
	unstranding sync.Mutex // held while tickets lose them that are named again

	// Guarded by Driver.mu.
	proof      driver.Instant    // when the last renewal that has succeeded was sent
	places     map[string]*place // by ID of the ticket
	left       recent.IDs        // of tickets that have left
	closed     bool              // Close has succeeded
	history    string            // that the session's tickets are known to belong to: see recount
	recounting bool              // that is under way

	// Tickets that are not known here any more, but may still stand or come, and
	// until when heartbeats name them, so that they are strays.
	orphans map[Ref]driver.Instant
}

func newSession(d *Driver, id string, ttl time.Duration, owner string) *session {
	return &session{
		d: d, id: id, ttl: ttl, owner: owner,
		over: make(chan struct{}), places: map[string]*place{}, orphans: map[Ref]driver.Instant{}, left: recent.IDs{Span: ttl}, signals: signals.New(),
	}
}

func (s *session) ID() string           { return s.id }
func (s *session) TTL() time.Duration   { return s.ttl }
func (s *session) Liveness() []*os.File { return nil }

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	return s.signals.Next(ctx, s.usable, s.over, s.d.ctx.Done())
}

// usable reports why the session cannot be used.
func (s *session) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.isOver() {
		return driver.ErrSession
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

// end has every later call fail.
func (s *session) end() {
	s.once.Do(func() {
		close(s.over)
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		for _, p := range s.places {
			p.changed()
		}
	})
}

// heard takes note of an error that says that the session is over.
func (s *session) heard(err error) error {
	if errors.Is(err, driver.ErrSession) {
		s.end()
	}
	return err
}

// Close ends the session in one exchange, and has the queues settled in which
// others may wait for its tickets. It is repeated until it has succeeded.
func (s *session) Close(ctx context.Context) error {
	if err := s.d.usable(ctx); err != nil {
		return err
	}
	s.end()
	s.d.mu.Lock()
	closed := s.closed
	s.d.mu.Unlock()
	if closed {
		return driver.ErrSession
	}
	ctx = withHeld(ctx)
	queues, err := ask(ctx, s.d, func(ctx context.Context) ([]string, error) { return s.d.store.End(ctx, s.id) })
	if err != nil {
		return err
	}
	s.d.mu.Lock()
	s.closed = true
	for _, p := range s.places {
		s.d.forget(p)
	}
	s.d.mu.Unlock()
	for _, q := range queues {
		if err := s.d.settleAll(ctx, q); err != nil {
			s.d.settle(q)
		}
	}
	return nil
}
