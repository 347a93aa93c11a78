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
	if err := l.bind(b); err != nil {
		cancel(l.fail("hold", err))
	}
	return ctx, func() {
		l.unbind(b)
		cancel(context.Canceled)
	}
}

// bind has a context end with the lease. It fails if the lease has ended.
func (l *Lease) bind(b *engine.Binding) error {
	if l.all != nil {
		return l.all.Bind(b)
	}
	return l.part.Bind(b)
}

func (l *Lease) unbind(b *engine.Binding) {
	if l.all != nil {
		l.all.Unbind(b)
	} else {
		l.part.Unbind(b)
	}
}
