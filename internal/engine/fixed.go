package engine

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Extend makes a ticket with a fixed end end d from now.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	t := l.t
	select { // two at once would not know which of them the backend did last
	case t.extending <- struct{}{}:
		defer func() { <-t.extending }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.setFixed(ctx, d)
}

func (l *Lease) setFixed(ctx context.Context, d time.Duration) error {
	t := l.t
	var b backoff.Backoff
	for {
		if err := l.Err(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		proof := t.e.d.Now()
		t.setEnd(proof.Add(d), margin(d), false)
		err := t.exchange(ctx, callTimeout(t.sess.ttl), func(ctx context.Context, s driver.Session) error {
			return s.Keep(ctx, t.tk, d)
		})
		switch {
		case err == nil:
			t.setEnd(proof.Add(d), margin(d), true)
			return l.Err()
		case IsGone(err):
			t.lose(t.vanished(), false)
			return l.Err()
		case t.e.ctx.Err() != nil:
			return ErrClosed
		case driver.IsPermanent(err) && !isSessionOver(err):
			return err
		}
		if err := t.e.beforeRetry(ctx, &b, err); err != nil {
			return err
		}
	}
}

// setEnd moves the end of a ticket with a fixed one. If that is not certain, the
// lease ends at the earlier time, and the backend may have the ticket until the later.
func (t *ticket) setEnd(end driver.Instant, spare time.Duration, certain bool) {
	t.q.mu.Lock()
	defer t.q.unlock()
	deadline := end.Add(-spare)
	switch {
	case t.state != ticketHeld:
		return
	case certain:
		t.end, t.deadline = end, deadline
	default:
		t.end, t.deadline = max(end, t.end), min(deadline, t.deadline)
	}
	t.e.reaper.lookAt(t.deadline)
}
