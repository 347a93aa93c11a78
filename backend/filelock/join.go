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
	err = s.change(ctx, j.Queue, func(q *queue) error {
		found := q.Ticket(j.ID) != nil
		if !found && (len(q.Tickets) >= maxList || q.size > maxRow/2) {
			return errTooLong
		}
		q.joins, q.Late = j.ID, flocked(j.Kind)
		if _, err := q.Join(j); err != nil {
			return err
		}
		t := q.Ticket(j.ID)
		if !found {
			t.Since = time.Now()
		}
		st = q.status(t)
		waits := st.State == exchange.Waiting
		unlocking = t.Held && waits && q.now.Before(q.Unlocking) && q.unlockable == nil
		var err error
		if q.unlockable != nil {
			err = driver.Permanent(q.unlockable)
		} else if j.NoWait && waits && !unlocking {
			err = driver.ErrBusy
		}
		if err != nil {
			q.Withdraw(j.Session, []string{j.ID}, true)
		}
		return err
	})
	return st, unlocking && err == nil, err
}
