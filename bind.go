package interlock

import (
	"context"

	"github.com/interlock-go/interlock/internal/engine"
)

// Bind returns a context that ends with the lease, with a cause that wraps
// ErrLost, ErrReleased or ErrClosed, and that carries the lease: whoever is
// given it is the holder (see [Lock.Held] and [Reentrant]). Call the function
// to free it.
func (l *Lease) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(l.carry(ctx))
	b := &engine.Binding{Work: true, Ended: func(why error) { cancel(l.fail("hold", why)) }}
	if err := l.held.Bind(b); err != nil {
		cancel(l.fail("hold", err))
	}
	return ctx, func() {
		l.held.Unbind(b)
		cancel(context.Canceled)
	}
}
