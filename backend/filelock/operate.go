//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

func (s *store) Settle(ctx context.Context, queue string) (bool, error) {
	return false, s.change(ctx, queue, func(*queueTx) error { return nil })
}

func (s *store) Ask(ctx context.Context, queue, id string, demand driver.Demand) (bool, error) {
	return false, s.change(ctx, queue, func(x *queueTx) error {
		err := x.Ask(id, demand)
		if errors.Is(err, driver.ErrGone) && strings.HasPrefix(id, foreignID) {
			for _, m := range s.foreign(x.queue) {
				if m.ID == id {
					return driver.Invalid(fmt.Errorf("%s, has locked %s: it cannot be asked", m.Owner, s.dir.lockFile(queue)))
				}
			}
		}
		return err
	})
}

// Resize outlasts a power loss.
func (s *store) Resize(ctx context.Context, queue string, capacity int64) (bool, error) {
	return false, s.change(ctx, queue, func(x *queueTx) error {
		x.durable = true
		return x.Resize(capacity)
	})
}

// Raise writes a row anew that is damaged: nothing in it can be used, and no token of it comes back.
func (s *store) Raise(ctx context.Context, name string, floor uint64) error {
	return s.changeRow(ctx, name, &queue{anew: true}, func(x *queueTx) error {
		x.Raise(floor)
		x.durable = true
		return nil
	})
}

func (s *store) Clock(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }
