//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) End(ctx context.Context, of exchange.Session, tickets []exchange.Leave) ([]string, error) {
	for _, l := range tickets {
		if _, err := s.Leave(ctx, l); err != nil && !errors.Is(err, driver.ErrGone) {
			return nil, err
		}
	}
	s.die(of.ID)
	return nil, nil
}

func (s *store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	return false, s.change(ctx, l.Queue, func(q *queue) error {
		q.find(l.ID)
		return q.Leave(l)
	})
}

// Withdraw is for a crowd that gives up: one transaction takes out many waiters.
func (s *store) Withdraw(ctx context.Context, of exchange.Session, name string, ids []string, clean bool) (gone []bool, unsettled bool, err error) {
	err = s.change(ctx, name, func(q *queue) error {
		gone = q.Withdraw(of, ids, clean)
		for _, id := range ids {
			q.find(id)
		}
		return nil
	})
	return gone, false, err
}

func (s *store) Shrink(ctx context.Context, of exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	return false, s.change(ctx, ref.Queue, func(q *queue) error {
		t := q.find(ref.ID)
		if t != nil && units < t.Units && t.Units == q.Capacity && t.PID != 0 && t.Session.ID == of.ID && !s.locks.share(t.ID) {
			q.drop(t, true) // another program was faster
			return driver.ErrGone
		}
		return q.Shrink(of, ref.ID, units)
	})
}

func (s *store) Keep(ctx context.Context, of exchange.Session, ref exchange.Ref, d time.Duration) error {
	return s.change(ctx, ref.Queue, func(q *queue) error {
		t := q.find(ref.ID)
		if t != nil && flocked(q.Kind) && q.client(t) == s && t.PID == 0 {
			return exchange.ErrNotHeld
		}
		err := q.Keep(of, ref.ID, d)
		if err == nil {
			q.durable = true
			s.locks.until(t.ID, q.now, t.End)
		}
		return err
	})
}
