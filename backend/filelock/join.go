//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"cmp"
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, s, changes, answer)
}

// Join is one transaction, or more: while the client of the last holder is about to unlock the file of a ticket that is
// granted.
func (s *store) Join(ctx context.Context, j exchange.Join) (st exchange.Status, err error) {
	for {
		unlocking := false
		err = s.change(ctx, j.Queue, func(q *queue) error {
			found := q.Ticket(j.ID) != nil
			if !found && (len(q.Tickets) >= rows.MaxList || q.size > maxRow/2) {
				return rows.ErrTooLong
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
			refused := driver.Permanent(q.unlockable)
			if unlocking = t.Held && waits && q.now.Before(q.Unlocking) && refused == nil; j.NoWait && waits && !unlocking {
				refused = cmp.Or(refused, driver.ErrBusy)
			}
			if refused != nil {
				q.Withdraw(j.Session, []string{j.ID}, true)
			}
			return refused
		})
		if err == nil && unlocking {
			err = ctx.Err() // the ticket stands, and may be granted at once
		}
		if err != nil || !unlocking {
			return st, err
		}
		time.Sleep(time.Millisecond)
	}
}
