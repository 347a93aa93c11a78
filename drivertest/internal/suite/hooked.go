package suite

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/calls"
)

// A Hook stands between the caller and a driver: it makes the call itself, or not, and decides which error the
// caller sees.
type Hook func(ctx context.Context, method string, call func(context.Context) error) error

// Hooked is the driver with a hook at each method of it and of its sessions that exchanges something, but for
// the lists, Check and Signals.
func Hooked(d driver.Driver, h Hook) driver.Driver {
	return &calls.Driver{Driver: d, Do: h.around(calls.On(d))}
}

func (h Hook) around(do calls.Func) calls.Func {
	return func(ctx context.Context, method string, args ...any) (result any, err error) {
		if method == "Signals" {
			return do(ctx, method, args...)
		}
		err = h(ctx, method, func(ctx context.Context) (err error) {
			result, err = do(ctx, method, args...)
			if o, ok := result.(*driver.Opened); ok && err == nil {
				o.Session = &calls.Session{Do: h.around(calls.On(o.Session))}
			}
			return err
		})
		return result, err
	}
}
