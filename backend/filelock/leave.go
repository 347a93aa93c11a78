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
	return false, s.change(ctx, l.Queue, func(x *queueTx) error {
		if l.Tombstone > 0 {
			x.bury(l.ID, l.Tombstone)
		}
		t, err := x.find(l.Session, l.ID)
		if err == nil && !(l.Unfixed && t.Fixed) {
			x.remove(t, l.Clean)
		}
		return err
	})
}

// Withdraw is for a crowd that gives up: one transaction takes out many waiters.
func (s *store) Withdraw(ctx context.Context, of exchange.Session, queue string, ids []string, clean bool) (gone []bool, unsettled bool, err error) {
	gone = make([]bool, len(ids))
	return gone, false, s.change(ctx, queue, func(x *queueTx) error {
		for i, id := range ids {
			if t, err := x.find(of, id); err == nil && t.Session.ID == of.ID {
				x.remove(t, clean)
			} else {
				gone[i] = true
			}
		}
		return nil
	})
}

func (s *store) Shrink(ctx context.Context, of exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	return false, s.change(ctx, ref.Queue, func(x *queueTx) error {
		t, err := x.find(of, ref.ID)
		if err != nil || units >= t.Units {
			return err
		}
		if t.Units == x.Capacity && t.Locked && x.mine(t) && !s.locks.share(t.ID) {
			x.drop(t, true) // another program was faster
			return driver.ErrGone
		}
		if x.exclusive(t) {
			x.Unclean = false // the exclusive hold has ended well
		}
		t.Units = units
		x.news()
		return nil
	})
}

func (s *store) Keep(ctx context.Context, of exchange.Session, ref exchange.Ref, d time.Duration) error {
	return s.change(ctx, ref.Queue, func(x *queueTx) error {
		t, err := x.find(of, ref.ID)
		switch end := x.now.add(d); {
		case err != nil:
			return err
		case !t.Held || x.flocked() && x.mine(t) && !t.Locked:
			return exchange.ErrNotHeld
		case t.Evicted && end > t.End:
			return driver.ErrGone
		default:
			t.Fixed, t.Hold, t.End, x.durable = true, d, end, true
			s.locks.until(t.ID, end)
			x.news()
			return nil
		}
	})
}
