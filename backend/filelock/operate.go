//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) Settle(ctx context.Context, queue string) (bool, error) {
	return false, s.change(ctx, queue, func(*queueTx) error { return nil })
}

func (s *store) Ask(ctx context.Context, queue, id string, demand driver.Demand) (bool, error) {
	return false, s.change(ctx, queue, func(x *queueTx) error {
		t := x.ticket(id)
		switch {
		case t == nil && strings.HasPrefix(id, foreignID):
			for _, m := range s.foreign(x.queue) {
				if m.ID == id {
					return driver.Invalid(fmt.Errorf("%s, has locked %s: it cannot be asked", m.Owner, s.dir.lockFile(queue)))
				}
			}
			return driver.ErrGone
		case t == nil:
			return driver.ErrGone
		case demand == driver.Force || demand == driver.Evict && !t.Held:
			x.evict(t, false)
			return nil
		}
		t.Revoked, t.Evicted = t.Revoked || demand == driver.Revoke, t.Evicted || demand == driver.Evict
		if end := x.now.add(t.Session.TTL); t.Evicted && end < t.End {
			t.End = end
		}
		x.send(t.Session.Mailbox, exchange.Event{Type: exchange.Demanded, ID: t.ID, Demand: demand})
		x.news()
		return nil
	})
}

// Resize outlasts a power loss.
func (s *store) Resize(ctx context.Context, queue string, capacity int64) (bool, error) {
	return false, s.change(ctx, queue, func(x *queueTx) error {
		switch {
		case len(x.Tickets) > 0 && x.Kind != driver.Semaphore:
			return driver.ErrMismatch
		case capacity == 0 && !x.Resized:
			return nil
		}
		if x.Resized = capacity > 0; x.Resized {
			x.Kind, x.Capacity = driver.Semaphore, capacity
		}
		for _, t := range slices.Clone(x.Tickets) {
			if !t.Held && t.Units > x.Capacity {
				x.evict(t, true)
			}
		}
		x.durable = true
		x.news()
		return nil
	})
}

// Raise writes a row anew that is damaged: nothing in it can be used, and no token of it comes back.
func (s *store) Raise(ctx context.Context, name string, floor uint64) error {
	return s.changeRow(ctx, name, &queue{Name: name, anew: true}, func(x *queueTx) error {
		x.Token, x.changed, x.durable = max(x.Token, floor), true, true
		return nil
	})
}

func (s *store) Clock(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }
