package engine

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bounded"
)

// become counts the lease as one of fewer units, before the backend is asked: if the reply is lost,
// others may have the rest. A writer's ticket, which becomes a reader's, is taken away from the
// writers. done says that the backend need not be asked.
func (l *Lease) become(units int64) (done bool, err error) {
	t := l.t
	now := t.e.d.Now()
	t.q.mu.Lock()
	defer t.q.unlock()
	t.checkDeadline(now)
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
	return done, err
}

// errOtherSession: drivers shrink the tickets of their own session only.
var errOtherSession = driver.Invalid(errors.New("the lease of ExpiresAfter is of another session, which alone can make it smaller"))

// Shrink has the backend reduce the ticket to so many units.
func (l *Lease) Shrink(ctx context.Context, units int64) error {
	t := l.t
	var b backoff.Backoff
	for {
		if done, err := l.become(units); done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := t.shrink(ctx, units)
		switch {
		case err == nil:
			t.q.mu.Lock()
			t.confirmed = min(t.confirmed, units)
			t.q.unlock()
			return l.Err()
		case t.e.ctx.Err() != nil:
			return ErrClosed
		case isSessionOver(err) && t.req.Hold > 0:
			return errOtherSession
		case IsGone(err) || isSessionOver(err):
			t.lose(err, false)
			return l.Err()
		case driver.IsPermanent(err):
			return err
		}
		if err := t.e.beforeRetry(ctx, &b, err); err != nil {
			return err
		}
	}
}

func (t *ticket) shrink(ctx context.Context, units int64) error {
	call := bounded.New(ctx, callTimeout(t.sess.ttl))
	defer call.Release()
	return t.sess.s.Shrink(call, t.tk, units)
}
