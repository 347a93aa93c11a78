package engine

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bounded"
)

// change has the backend change the ticket, and repeats that until ctx ends. begin is called before each try: done says
// that there is nothing left to do.
func (l *Lease) change(ctx context.Context, begin func() (bool, error), call func(context.Context) error) error {
	t := l.t
	var b backoff.Backoff
	for {
		if done, err := begin(); done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := call(ctx)
		switch {
		case err == nil:
			return l.Err()
		case IsGone(err):
			t.lose(t.vanished(), false)
			return l.Err()
		case isSessionOver(err) && !l.Fixed():
			t.lose(err, false)
			return l.Err()
		case driver.IsPermanent(err) && !isSessionOver(err):
			return err
		}
		if err := t.e.beforeRetry(ctx, &b, err); err != nil {
			return err
		}
	}
}

// Shrink has the backend reduce the ticket to so many units.
func (l *Lease) Shrink(ctx context.Context, units int64) error {
	t := l.t
	return l.change(ctx, func() (done bool, err error) { return l.become(units) }, func(ctx context.Context) error {
		call := bounded.New(ctx, callTimeout(t.sess.ttl))
		defer call.Release()
		err := t.sess.s.Shrink(call, t.tk, units)
		switch {
		case err == nil:
			l.locked(func() { t.confirmed = min(t.confirmed, units) })
		case isSessionOver(err) && l.Fixed():
			return errOtherSession
		}
		return err
	})
}

// become counts the lease as one of fewer units, before the backend is asked: if the reply is lost,
// others may have the rest. A writer's ticket, which becomes a reader's, is taken away from the
// writers. done says that the backend need not be asked.
func (l *Lease) become(units int64) (done bool, err error) {
	t := l.t
	t.checked(func() {
		switch {
		case l.why != nil:
			err = l.why
		case units >= t.confirmed:
			done = true
		case t.req.Hold > 0 && (!t.sent || t.sess.ended.Load()):
			err = errOtherSession
		case units >= t.units: // asked before, in vain
		case l.g.leases > 1 || t.live > 1:
			err = driver.Invalid(errors.New("the lock was acquired again by this holder; release that first"))
		default:
			t.units = units
			t.q.uncount(t)
			if n := t.local; n != nil {
				t.local = nil
				n.ticketLost(t)
			}
		}
	})
	return done, err
}

// errOtherSession: drivers shrink the tickets of their own session only.
var errOtherSession = driver.Invalid(errors.New("the lease of ExpiresAfter is of another session, which alone can make it smaller"))

// Extend makes a ticket with a fixed end end d from now.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	t := l.t
	select { // two at once would not know which of them the backend did last
	case t.extending <- struct{}{}:
		defer func() { <-t.extending }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.change(ctx, func() (done bool, err error) { return false, l.Err() }, func(ctx context.Context) error {
		end := t.e.d.Now().Add(d)
		t.setEnd(end, margin(d), false)
		err := t.exchange(ctx, callTimeout(t.sess.ttl), func(ctx context.Context, s driver.Session) error {
			return s.Keep(ctx, t.tk, d)
		})
		if err == nil {
			t.setEnd(end, margin(d), true)
		}
		return err
	})
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
