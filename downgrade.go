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
// is lost is repeated until ctx ends. After an error the lease is a reader's all
// the same, though others may be kept out still; Downgrade can be called again.
func (l *Lease) Downgrade(ctx context.Context) error {
	if l.lock.kind != driver.RWMutex {
		return l.fail("downgrade", driver.Invalid(fmt.Errorf("a %s has no readers", l.lock.kind)))
	}
	return l.fail("downgrade", l.downgrade(ctx))
}

func (l *Lease) downgrade(ctx context.Context) error {
	t := l.t
	var b backoff.Backoff
	for {
		unlock := l.locked()
		err, shared, nested := l.err, t.shrunk || t.req.Units < t.req.Capacity, l.g.leases > 1
		unlock()
		switch {
		case err != nil:
			return err
		case shared:
			return nil
		case nested:
			return driver.Invalid(errors.New("the lock was acquired again by this holder; release that first"))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		l.becomeReader() // now: if the reply is lost, others may be in
		err = t.exchange(ctx, callTimeout(t.sess.ttl), func(ctx context.Context, s driver.Session) error {
			return s.Shrink(ctx, t.tk, 1)
		})
		switch {
		case err == nil:
			t.mu.Lock()
			t.shrunk = true
			t.mu.Unlock()
			return l.Err()
		case (isGone(err) || isSessionOver(err)) && t.c.ctx.Err() == nil:
			t.gone(err)
			return ErrLost
		case t.c.ctx.Err() != nil:
			return ErrClosed
		case driver.IsPermanent(err):
			return err
		}
		if b.Sleep(ctx) != nil {
			return because(ctx, err)
		}
	}
}

// becomeReader takes the ticket away from the line of writers.
func (l *Lease) becomeReader() {
	t := l.t
	t.c.mu.Lock()
	t.uncount()
	t.c.mu.Unlock()
	t.mu.Lock()
	n := t.line
	l.g.units, t.line = 1, nil
	t.mu.Unlock()
	if n != nil {
		n.lost(t)
	}
}
