package exchange

import (
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// strayShare is which part of the TTL a heartbeat that has tickets to keep waits for strays.
const strayShare = 12

// detach makes strays of tickets before a heartbeat extends the session.
func (s *session) detach(ctx context.Context, patience time.Duration, tickets []Ref) {
	if s.d.detach != nil {
		s.beside(ctx, patience, &s.detaching, tickets, s.d.detach.Detach)
	}
}

// attachNamed is called after a heartbeat has found that tickets are strays which the caller
// names again. If it takes long, the next heartbeat finds them attached.
func (s *session) attachNamed(ctx context.Context, named []Ref, found []finding, renewed driver.Instant) {
	if s.d.detach == nil {
		return
	}
	var again []Ref
	var places []int // of these
	for i, t := range named {
		if f := found[i]; (f.State == Waiting || f.State == Held) && f.Stray {
			again, places = append(again, t), append(places, i)
		}
	}
	if !s.beside(ctx, s.ttl/strayShare, &s.attaching, again, s.d.detach.Attach) {
		return
	}
	now, err := s.lookAfter(ctx, again, renewed)
	if err != nil {
		return
	}
	for k, i := range places {
		if now[k].State != NotAsked {
			found[i] = now[k]
		}
	}
}

// beside has Detach or Attach called, and waits for it, but not for longer than patience: for
// each ticket the backend waits for its queue, which another client may have locked for long,
// and a heartbeat must not wait for that, since what it is to keep may stand in other queues. The
// exchange goes on, one of each kind at a time, and the heartbeat extends a stray once more. That
// does no harm: whenever a stray gets its own end, that end is not earlier than what was promised.
func (s *session) beside(ctx context.Context, patience time.Duration, one *sync.Mutex, tickets []Ref, exchange func(context.Context, Session, []Ref) error) (done bool) {
	if len(tickets) == 0 || !one.TryLock() {
		return false
	}
	result := make(chan error, 1)
	runs := s.d.soon(func(ctx context.Context) {
		defer one.Unlock()
		result <- do(ctx, s.d, func(ctx context.Context) error { return exchange(ctx, s.row, tickets) })
	})
	if !runs {
		one.Unlock()
		return false
	}
	select {
	case err := <-result:
		return err == nil // else the next heartbeat tries again
	case <-time.After(patience):
	case <-ctx.Done():
	}
	return false
}
