package sqlitelock

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Renew is one transaction, which writes the row of each queue.
func (s *store) Renew(ctx context.Context, of exchange.Session, refs []exchange.Ref, extend int) (exchange.Renewal, error) {
	all, err := s.look(ctx, of, refs, extend)
	for i := extend; i < len(all); i++ {
		all[i].Stray = !all[i].Fixed
	}
	if errors.Is(err, errReplaced) { // the next client does not see our tickets
		err = fmt.Errorf("%w: %w", driver.ErrSession, err)
	}
	s.mailbox.Repair()
	return exchange.Renewal{Tickets: all}, err
}

func (s *store) Look(ctx context.Context, of exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
	return s.look(ctx, of, refs, 0)
}

// look reads the status of tickets, for a heartbeat after it has extended the first of them. A row that is damaged
// harms no ticket of another one.
func (s *store) look(ctx context.Context, of exchange.Session, refs []exchange.Ref, extend int) (all []exchange.Status, err error) {
	err = s.change(ctx, false, func(t *tx) error {
		if err := s.file.same(); err != nil {
			return err
		}
		if err := t.over(of); err != nil {
			return err
		}
		all = make([]exchange.Status, len(refs))
		waits := map[*queue]string{} // the last waiter of each queue
		var damaged error
		failures := 0
		for i, ref := range refs {
			q, err := t.reaped(ref.Queue)
			if errors.Is(err, errRow) {
				all[i].State, damaged = exchange.NotAsked, err
				failures++
				continue
			}
			if err != nil {
				return err
			}
			if all[i] = t.status(q.Look(of, ref.ID, i < extend)); all[i].State == exchange.Waiting {
				waits[q] = ref.ID
			}
			if errors.Is(q.tail.err, errRow) { // the row of this one
				all[i].State, damaged = exchange.NotAsked, q.tail.err
				failures++
				q.tail.err = nil
			}
		}
		for q, id := range waits {
			t.front(q, id)
		}
		if failures > 0 && failures == len(refs) {
			return damaged
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// reaped reads a queue, and takes out what the dead have left in it.
func (t *tx) reaped(name string) (*queue, error) {
	n := len(t.queues)
	q, err := t.queue(name)
	if err == nil && len(t.queues) > n {
		q.Reap(t.s.dead)
	}
	if err == nil {
		err = q.tail.err
	}
	return q, err
}

// Settle also takes out what the dead have left.
func (s *store) Settle(ctx context.Context, name string) (unsettled bool, err error) {
	return false, s.change(ctx, false, func(t *tx) error {
		_, err := t.reaped(name)
		return err
	})
}
