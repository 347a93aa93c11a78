package interlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bounded"
)

// Permits is how many permits of a semaphore the lease has: those it was acquired with, or those
// that [Lease.KeepPermits] has left. It is 0 for any other lock, and for the lease of [All], whose parts have
// permits.
func (l *Lease) Permits() int64 {
	if l.all != nil || l.part.lock.kind != driver.Semaphore {
		return 0
	}
	return l.part.units()
}

// KeepPermits gives back a part of a semaphore's permits: the lease keeps so many, and waiters who fit now are
// granted in the same exchange. It keeps its token and its deadline. The number is what stays, not what is given
// back, so that the call can be repeated after an error: to give back ten, KeepPermits(ctx, l.Permits()-10). As
// many as the lease has change nothing.
//
// An exchange whose reply is lost is repeated until ctx ends. After an error, also if ctx had
// ended before, the lease has so many permits all the same, though others may be kept out still
// until it is called again, or the lease ends. ErrInvalid changes nothing: fewer than one permit (see [Lease.Release]),
// more than the lease has, another lock than a semaphore, permits that were acquired again by
// their holder ([Reentrant], [Client.Adopt]), a lease of ExpiresAfter of another session, and the lease of
// [All], whose parts have permits of their own. ErrLost: the lease is over.
func (l *Lease) KeepPermits(ctx context.Context, permits int64) error {
	return l.fail("keep permits", l.keepPermits(ctx, permits))
}

// units are those that the lease has.
func (l *single) units() int64 {
	l.t.q.mu.Lock()
	defer l.t.q.unlock()
	return l.t.units
}

func (l *Lease) keepPermits(ctx context.Context, permits int64) error {
	switch p := l.part; {
	case l.all != nil:
		return driver.Invalid(errors.New("the parts of All have permits, each of which gives back its own (see Lease.Parts)"))
	case p.lock.kind != driver.Semaphore:
		return driver.Invalid(fmt.Errorf("only a semaphore has permits to give back, not this %s", p.lock.kind))
	case permits < 1:
		return driver.Invalid(fmt.Errorf("%d permits are to stay: at least one does, and Release gives all back", permits))
	case permits > p.units() && p.err() == nil:
		return driver.Invalid(fmt.Errorf("%d permits are to stay: the lease has %d", permits, p.units()))
	default:
		return p.shrink(ctx, permits)
	}
}

// become counts the lease as one of fewer units, before the backend is asked: if the reply is lost,
// others may have the rest. A writer's ticket, which becomes a reader's, is taken away from the
// line of writers. done says that the backend need not be asked.
func (l *single) become(units int64) (done bool, err error) {
	t := l.t
	now := t.c.d.Now()
	t.q.mu.Lock()
	defer t.q.unlock()
	t.judge(now)
	switch {
	case l.fate.why != nil:
		err = l.fate.why
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
		if n := t.line; n != nil {
			t.line = nil
			n.lost(t)
		}
	}
	return done, err
}

// errOtherSession: drivers shrink the tickets of their own session only.
var errOtherSession = driver.Invalid(errors.New("the lease of ExpiresAfter is of another session, which alone can make it smaller"))

// shrink has the backend reduce the ticket to so many units.
func (l *single) shrink(ctx context.Context, units int64) error {
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
			return l.err()
		case t.c.ctx.Err() != nil:
			return ErrClosed
		case isSessionOver(err) && t.req.Hold > 0:
			return errOtherSession
		case isGone(err) || isSessionOver(err):
			t.gone(err)
			return l.err()
		case driver.IsPermanent(err):
			return err
		}
		if err := t.c.beforeRetry(ctx, &b, err); err != nil {
			return err
		}
	}
}

func (t *ticket) shrink(ctx context.Context, units int64) error {
	call := bounded.New(ctx, callTimeout(t.sess.ttl))
	defer call.Release()
	return t.sess.s.Shrink(call, t.tk, units)
}
