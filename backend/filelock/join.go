//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

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
		t := x.ticket(j.ID)
		if len(x.Tickets) == 0 && !x.Resized && (x.Kind != j.Kind || x.Capacity != j.Capacity) {
			x.Kind, x.Capacity, x.changed = j.Kind, j.Capacity, true
		}
		switch {
		case t != nil && t.Session.ID != j.Session.ID || x.buried(j.ID):
			return driver.ErrGone
		case t != nil:
			x.extend(t)
		case x.Kind != j.Kind || x.Capacity != j.Capacity:
			return driver.ErrMismatch
		case t == nil && (len(x.Tickets) >= maxList || x.size > maxRow/2):
			return errTooLong
		case max(x.Token, clockToken())+uint64(len(x.Tickets))+1 >= driver.MaxToken:
			return exchange.ErrTokens
		case j.NoWait && !x.fits(j.Units):
			return driver.ErrBusy
		}
		found := t != nil
		if !found {
			t = &ticket{ID: j.ID, Units: j.Units, Session: j.Session, Request: j.Hold, Note: j.Note, Since: time.Now(),
				End: x.now.add(j.Session.TTL)}
			x.Tickets, x.joins = append(x.Tickets, t), t
			x.news()
			x.settle()
		}
		st = x.status(t)
		st.Sent = x.sent
		unlocking = t.Held && st.State == exchange.Waiting && x.now < x.Unlocking && x.unlockable == nil
		switch {
		case x.unlockable != nil:
			x.remove(t, true)
			return driver.Permanent(x.unlockable)
		case st.State == exchange.Held, unlocking:
		case j.NoWait:
			x.remove(t, true)
			return driver.ErrBusy
		case !found && st.Ahead == 0:
			for _, holder := range x.Tickets[:len(x.Tickets)-1] { // which now have a waiter behind them
				x.send(holder.Session.Mailbox, exchange.Event{Type: exchange.Demanded, ID: holder.ID, Demand: driver.Wanted})
			}
		}
		return nil
	})
	return st, unlocking && err == nil, err
}
