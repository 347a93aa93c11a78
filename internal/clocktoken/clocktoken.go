// Package clocktoken is for backends whose tokens follow their server's clock.
package clocktoken

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

const (
	perSecond = 100_000 // units of 10 µs
	patience  = 10 * perSecond
)

// Pass makes all later tokens larger than floor: it waits until the clock has passed it, for
// ten seconds at most. A clock that is further behind is an error. now returns the
// server's time in microseconds.
func Pass(ctx context.Context, floor uint64, now func(context.Context) (int64, error)) error {
	for {
		at, err := now(ctx)
		if err != nil {
			return err
		}
		behind := int64(floor) + 1 - at/10
		if behind <= 0 {
			return nil
		}
		if behind > patience {
			return driver.Invalid(fmt.Errorf("tokens follow the server's clock, and the floor is ahead of it by %d s: raise each name by itself", behind/perSecond))
		}
		if err := backoff.Sleep(ctx, time.Duration(behind)*time.Second/perSecond); err != nil {
			return err
		}
	}
}
