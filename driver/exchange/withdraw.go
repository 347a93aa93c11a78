package exchange

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// batch is what waiters have in common that leave in one exchange: those of one queue that come while an
// exchange is under way share the next one. So a crowd that gives up is gone soon. A grant to one of them
// is in vain, and the queue stands still until that ticket has left.
type batch struct {
	s     *session
	queue string
	clean bool
}

// withdrawal is a ticket that is to leave.
type withdrawal struct {
	done chan struct{} // closed when it has a result
	err  error
}

// perWithdraw bounds the tickets of one exchange.
const perWithdraw = 100

// withdraw has a waiter leave with the next exchange. If ctx ends before that, it leaves all the
// same.
func (s *session) withdraw(ctx context.Context, t Ref, clean bool) error {
	b := batch{s, t.Queue, clean}
	s.d.mu.Lock()
	if s.d.withdrawals[b] == nil {
		s.d.withdrawals[b] = map[string]*withdrawal{}
	}
	w := s.d.withdrawals[b][t.ID]
	if w == nil {
		w = &withdrawal{done: make(chan struct{})}
		s.d.withdrawals[b][t.ID] = w
	}
	s.d.mu.Unlock()
	s.d.withdrawNext(b)
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return s.d.failed(ctx, ctx.Err())
	case <-s.d.ctx.Done():
		return errClosed
	}
}

// withdrawNext makes exchanges until nothing more is gathered.
func (d *Driver) withdrawNext(b batch) {
	d.once(fmt.Sprint("withdraw ", b.s.row.ID, b.clean, b.queue), func(ctx context.Context) error {
		var ids []string
		var some []*withdrawal
		d.mu.Lock()
		for id, w := range d.withdrawals[b] {
			if len(ids) == perWithdraw {
				defer d.withdrawNext(b)
				break
			}
			ids, some = append(ids, id), append(some, w)
			delete(d.withdrawals[b], id)
		}
		if len(d.withdrawals[b]) == 0 {
			delete(d.withdrawals, b)
		}
		d.mu.Unlock()
		if len(ids) > 0 {
			d.withdrawSome(ctx, b, ids, some)
		}
		return nil
	})
}

func (d *Driver) withdrawSome(ctx context.Context, b batch, ids []string, some []*withdrawal) {
	var gone []bool
	err := d.change(d.with(ctx, ofWaiter), b.queue, func(ctx context.Context) (unsettled bool, err error) {
		gone, unsettled, err = d.batches.Withdraw(ctx, b.s.row, b.queue, ids, b.clean)
		return unsettled, err
	})
	for i, w := range some {
		if w.err = err; err == nil && gone[i] {
			w.err = driver.ErrGone
		}
		close(w.done)
	}
}
