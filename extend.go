package interlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Extend makes a lease of ExpiresAfter end d from now, sooner or later than before: at most fifty years. It can be used
// for less than d, as [ExpiresAfter] says. An exchange whose reply is lost is repeated until ctx
// ends; when it is not known which of the two ends holds, the lease ends at the earlier. All parts of
// a lease of [All] are extended; if that fails for one, those after it have the ends of before.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	for _, p := range l.parts() {
		if p.t.req.Hold == 0 {
			return l.failPart("extend", p, errNotFixed)
		}
	}
	for _, p := range l.parts() {
		if err := p.extendOne(ctx, d); err != nil {
			return l.failPart("extend", p, err)
		}
	}
	return l.fail("extend", l.Err())
}

func (l *single) extendOne(ctx context.Context, d time.Duration) error {
	t := l.t
	if d <= 0 || d > maxTime {
		return driver.Invalid(fmt.Errorf("the time %v is not more than 0 and at most %v", d, maxTime))
	}
	select { // two at once would not know which of them the backend did last
	case t.extending <- struct{}{}:
		defer func() { <-t.extending }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.extend(ctx, d)
}

var errNotFixed = driver.Invalid(errors.New("only a lease of ExpiresAfter has a fixed end; this one is renewed by itself"))

func (l *single) extend(ctx context.Context, d time.Duration) error {
	t := l.t
	var b backoff.Backoff
	for {
		if err := l.err(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		proof := t.c.d.Now()
		t.setEnd(proof.Add(d), margin(d), false)
		err := t.exchange(ctx, callTimeout(t.sess.ttl), func(ctx context.Context, s driver.Session) error {
			return s.Keep(ctx, t.tk, d)
		})
		switch {
		case err == nil:
			t.setEnd(proof.Add(d), margin(d), true)
			return l.err()
		case isGone(err):
			t.gone(t.vanished())
			return l.err()
		case t.c.ctx.Err() != nil:
			return ErrClosed
		case driver.IsPermanent(err) && !isSessionOver(err):
			return err
		}
		if err := t.c.beforeRetry(ctx, &b, err); err != nil {
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
	t.c.reaper.lookAt(t.deadline)
}
