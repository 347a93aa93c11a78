package interlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// Permits is how many permits of a semaphore the lease has: those it was acquired with, or those
// that [Lease.KeepPermits] has left. It is 0 for any other lock, and for the lease of [All], whose parts have
// permits.
func (l *Lease) Permits() int64 {
	if l.isAll() || l.lock.cfg.Kind != driver.Semaphore {
		return 0
	}
	return l.held.Units()
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

func (l *Lease) keepPermits(ctx context.Context, permits int64) error {
	switch p := &l.held; {
	case l.isAll():
		return driver.Invalid(errors.New("the parts of All have permits, each of which gives back its own (see Lease.Parts)"))
	case l.lock.cfg.Kind != driver.Semaphore:
		return driver.Invalid(fmt.Errorf("only a semaphore has permits to give back, not this %s", l.lock.cfg.Kind))
	case permits < 1:
		return driver.Invalid(fmt.Errorf("%d permits are to stay: at least one does, and Release gives all back", permits))
	case permits > p.Units() && p.Err() == nil:
		return driver.Invalid(fmt.Errorf("%d permits are to stay: the lease has %d", permits, p.Units()))
	default:
		return p.Shrink(ctx, permits)
	}
}
