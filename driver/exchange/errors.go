package exchange

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/deadline"
)

var (
	errClosed = driver.Permanent(errors.New("the driver is closed"))

	// ErrNotHeld is what Keep of a waiter returns.
	ErrNotHeld = driver.Invalid(errors.New("keep: the ticket is not held"))

	// ErrTokens is what Join and Raise return when there are no larger tokens below driver.MaxToken.
	ErrTokens = driver.Permanent(errors.New("the tokens of this queue are used up"))
)

// NotSent marks the error of a Join that has certainly not taken effect, and never will: it was given
// up before it was sent. Then the ticket can be left without an exchange.
func NotSent(err error) error { return notSent{err} }

type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// usable reports why the driver cannot be used.
func (d *Driver) usable(ctx context.Context) error {
	if d.ctx.Err() != nil { // first: it ends contexts that are bound to it
		return errClosed
	}
	return ctx.Err()
}

// failed makes an error of the store say what has happened.
func (d *Driver) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case driver.IsPermanent(err): // a sentinel, most of the time
		return err
	case d.traits.Bounded && ctx.Err() != nil && errors.Is(err, ctx.Err()): // it may say what was waited for
		return err
	case deadline.Err(ctx) != nil:
		return deadline.Err(ctx)
	case d.ctx.Err() != nil:
		return errClosed
	}
	return d.store.Explain(err)
}
