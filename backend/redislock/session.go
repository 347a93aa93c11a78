package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/recent"
	"github.com/interlock-go/interlock/internal/signals"
)

// session is the places of one heartbeat. The server knows it only as a part of
// its tickets.
type session struct {
	d     *Driver
	id    string
	ttl   time.Duration
	ttlUS string
	owner string // as records have it

	over chan struct{} // closed by Close
	once sync.Once

	places  map[string]*place // by ID of the ticket; guarded by Driver.mu
	left    recent.IDs        // IDs that need no tombstone; guarded by Driver.mu
	signals *signals.Queue
}

func newSession(d *Driver, id string, ttl time.Duration, owner string) *session {
	return &session{
		d: d, id: id, ttl: ttl, ttlUS: micros(ttl), owner: url.QueryEscape(owner),
		over: make(chan struct{}), places: map[string]*place{}, left: recent.IDs{Span: ttl}, signals: signals.New(),
	}
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// usable reports why the session cannot be used.
func (s *session) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.over:
		return driver.ErrSession
	default:
	}
	return s.d.usable(ctx)
}

func (s *session) place(id string) *place {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.places[id]
}

// queue returns what is known of a queue, or why its name is refused.
func (d *Driver) queue(name string) (*queue, error) {
	if q := d.queues.get(name); q != nil {
		return q, nil
	}
	if err := driver.CheckName(name); err != nil {
		return nil, err
	}
	return d.queues.add(name, d.prefix, d.high), nil
}

// What scripts return instead of a ticket.
const (
	codeHeld     = 1
	codeWaits    = 2
	codeBusy     = -1
	codeGone     = -2
	codeMismatch = -3
	codeUsedUp   = -4
	codeNotHeld  = -5
	codeBack     = -6
)

var (
	errUsedUp  = driver.Permanent(errors.New("redis: the tokens of this queue are used up"))
	errNotHeld = driver.Invalid(errors.New("keep: the ticket is not held"))
)

func codeError(code int64) error {
	switch code {
	case codeHeld, codeWaits:
		return nil
	case codeBusy:
		return driver.ErrBusy
	case codeGone:
		return driver.ErrGone
	case codeMismatch:
		return driver.ErrMismatch
	case codeUsedUp:
		return errUsedUp
	case codeNotHeld:
		return errNotHeld
	}
	return fmt.Errorf("redis: a script returned the code %d", code)
}

// Close leaves every ticket that has no fixed end. It is repeated until all are
// left; then the session has been over for some time.
func (s *session) Close(ctx context.Context) error {
	if err := s.d.usable(ctx); err != nil {
		return err
	}
	first := false
	s.once.Do(func() { close(s.over); first = true })
	s.d.mu.Lock()
	var calls []call
	var places []*place
	for _, p := range s.places {
		if p.fixed {
			s.d.forget(p)
			continue
		}
		places = append(places, p)
	}
	// Those that wait leave first, or they would be granted what the others leave. One
	// that is held may have got a fixed end by a Keep without an answer.
	slices.SortFunc(places, func(a, b *place) int { return cmp.Compare(a.state, b.state) })
	for _, p := range places {
		calls = append(calls, p.leaving(false, p.state == held))
	}
	s.d.mu.Unlock()
	if len(calls) == 0 {
		if first {
			return nil
		}
		return driver.ErrSession
	}
	var failed error
	s.d.each(ctx, 0, calls, func(i int, answer []int64, _ driver.Instant, err error) {
		if err != nil {
			failed = err
			return
		}
		s.d.mu.Lock()
		s.d.forget(places[i])
		s.d.mu.Unlock()
		if len(answer) > 2 && answer[2] != 0 {
			s.d.settle(places[i].q)
		}
	})
	return failed
}
