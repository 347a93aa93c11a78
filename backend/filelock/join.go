//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, s, changes, answer)
}

func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	for {
		st, unlocking, err := s.join(ctx, j)
		switch {
		case !unlocking:
			return st, err
		case ctx.Err() != nil: // the ticket stands, and may be granted at once
			return st, ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
}

// join is one transaction of a Join. It says whether it is to be repeated: the ticket is granted, and
// the client of the last holder is about to unlock the file.
func (s *store) join(ctx context.Context, j exchange.Join) (st exchange.Status, unlocking bool, err error) {
	err = s.change(ctx, j.Queue, func(x *queueTx) error {
		found := x.Ticket(j.ID) != nil
		if !found && (len(x.Tickets) >= maxList || x.size > maxRow/2) {
			return errTooLong
		}
		x.joins = j.ID
		in := j
		if flocked(j.Kind) {
			in.Hold = 0
		}
		if _, err := x.Queue.Join(in); err != nil {
			return err
		}
		t := x.Ticket(j.ID)
		if !found {
			if t.Since = time.Now(); in.Hold != j.Hold {
				t.HoldFor = j.Hold
				x.holdFromLock(t)
			}
		}
		x.apply()
		st = x.status(t)
		unlocking = t.Held && st.State == exchange.Waiting && x.Now.Before(x.Unlocking) && x.unlockable == nil
		switch {
		case x.unlockable != nil:
			x.Withdraw(j.Session, []string{j.ID}, true)
			return driver.Permanent(x.unlockable)
		case j.NoWait && st.State == exchange.Waiting && !unlocking:
			x.Withdraw(j.Session, []string{j.ID}, true)
			return driver.ErrBusy
		}
		return nil
	})
	return st, unlocking && err == nil, err
}
