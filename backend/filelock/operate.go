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

func (s *store) Settle(ctx context.Context, name string) (bool, error) {
	return false, s.change(ctx, name, func(*queue) error { return nil })
}

func (s *store) Ask(ctx context.Context, name, id string, demand driver.Demand) (bool, error) {
	return false, s.change(ctx, name, func(q *queue) error {
		err := q.Ask(id, demand)
		if errors.Is(err, driver.ErrGone) && strings.HasPrefix(id, foreignID) {
			for _, m := range s.foreign(q) {
				if m.ID == id {
					return driver.Invalid(fmt.Errorf("%s, has locked %s: it cannot be asked", m.Owner, s.dir.lockFile(name)))
				}
			}
		}
		return err
	})
}

// Resize outlasts a power loss.
func (s *store) Resize(ctx context.Context, name string, capacity int64) (bool, error) {
	return false, s.change(ctx, name, func(q *queue) error {
		q.durable = true
		return q.Resize(capacity)
	})
}

// Raise writes a row anew that is damaged: nothing in it can be used, and no token of it comes back.
func (s *store) Raise(ctx context.Context, name string, floor uint64) error {
	return s.changeRow(ctx, name, &queue{anew: true}, func(q *queue) error {
		q.durable = true
		return q.Raise(floor)
	})
}

func (s *store) Clock(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }
