package interlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Downgrade turns a writer's lease into a reader's, without letting another
// writer in between: waiting readers get in beside it. An exchange whose reply
// is lost is repeated until ctx ends. After an error, also if ctx had ended before,
// the lease is a reader's all the same, though others may be kept out still; Downgrade
// can be called again. Only after ErrInvalid it may be a writer's still: a lock that is
// acquired again by its holder, and a lease of Hold of another session, are not downgraded. Of a
// lease of [All] the parts that are writers' sides become readers' sides, and the others stay.
func (l *Lease) Downgrade(ctx context.Context) error { return l.h.Downgrade(ctx) }

func (l *single) Downgrade(ctx context.Context) error {
	if l.lock.kind != driver.RWMutex {
		return l.fail("downgrade", driver.Invalid(fmt.Errorf("only a read-write lock has readers, not this %s", l.lock.kind)))
	}
	return l.fail("downgrade", l.downgrade(ctx))
}

func (l *single) downgrade(ctx context.Context) error {
	t := l.t
	var b backoff.Backoff
	for {
		if done, err := l.becomeReader(); done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := t.shrink(ctx)
		switch {
		case err == nil:
			t.mu.Lock()
			t.shrunk = true
			t.mu.Unlock()
			return l.Err()
		case t.c.ctx.Err() != nil:
			return ErrClosed
		case isSessionOver(err) && t.req.Hold > 0:
			return errOtherSession
		case isGone(err) || isSessionOver(err):
			t.gone(err)
			return l.Err()
		case driver.IsPermanent(err):
			return err
		}
		if b.Sleep(ctx) != nil {
			return because(ctx, err)
		}
	}
}

// errOtherSession: drivers shrink the tickets of their own session only.
var errOtherSession = driver.Invalid(errors.New("the lease of Hold is of another session, which alone can downgrade it"))

func (t *ticket) shrink(ctx context.Context) error {
	call := bound(ctx, callTimeout(t.sess.ttl))
	defer call.release()
	return t.sess.s.Shrink(call, t.tk, 1)
}

// becomeReader takes the ticket away from the line of writers, before the backend is asked:
// if the reply is lost, others may be in. done says that the backend need not be asked.
func (l *single) becomeReader() (done bool, err error) {
	t := l.t
	now := t.c.d.Now()
	var n *line
	t.c.mu.Lock()
	t.mu.Lock()
	after := t.judge(now)
	switch {
	case l.err != nil:
		err = l.err
	case t.shrunk || t.req.Units < t.req.Capacity:
		done = true
	case t.req.Hold > 0 && (!t.sent || t.sess.ended):
		err = errOtherSession
	case t.units == 1: // asked before, in vain
	case l.g.leases > 1 || t.live > 1:
		err = driver.Invalid(errors.New("the lock was acquired again by this holder; release that first"))
	default:
		n, t.line = t.line, nil
		t.units = 1
		t.uncount()
	}
	t.mu.Unlock()
	t.c.mu.Unlock()
	after()
	if n != nil {
		n.lost(t)
	}
	return done, err
}
