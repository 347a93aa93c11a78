package sqlitelock

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

func (s *store) Ask(ctx context.Context, name, id string, what driver.Demand) (unsettled bool, err error) {
	return false, s.changeQueue(ctx, name, false, func(_ *tx, q *queue) error { return q.Ask(id, what) })
}

// Resize outlasts a power loss.
func (s *store) Resize(ctx context.Context, name string, capacity int64) (unsettled bool, err error) {
	return false, s.changeQueue(ctx, name, true, func(_ *tx, q *queue) error { return q.Resize(capacity) })
}

// Raise writes a row anew that is damaged. It outlasts a power loss, as RaiseAll does.
func (s *store) Raise(ctx context.Context, queue string, floor uint64) error {
	return s.change(ctx, true, func(t *tx) error { return t.raise(queue, floor, true) })
}

func (t *tx) raise(name string, floor uint64, anew bool) error {
	q, err := t.queue(name)
	if err == nil && anew && q.Behind > 0 {
		q.tail.All()
		if err = q.tail.err; err != nil {
			t.queues = nil
		}
	}
	for _, table := range []string{"ticket WHERE queue", "queue WHERE name"} { // a holder stays if it can be read
		if errors.Is(err, errRow) && anew {
			if err = t.exec("DELETE FROM "+table+" = ?", name); err == nil {
				q, err = t.queue(name)
			}
		}
	}
	if err == nil {
		err = q.Queue.Raise(floor)
	}
	return err
}

// RaiseAll raises the floor of queues to come, and the tokens of all that have a row.
func (s *store) RaiseAll(ctx context.Context, floor uint64) error {
	return s.change(ctx, true, func(t *tx) error {
		if err := t.exec("UPDATE file SET floor = CASE WHEN floor BETWEEN 0 AND ?1 THEN max(floor, ?2) ELSE ?2 END", driver.MaxToken-1, int64(floor)); err != nil {
			return err
		}
		var names []string
		if err := t.all("SELECT name FROM queue WHERE "+named, func(r *sqlite.Stmt) bool {
			names = append(names, r.ColumnText(0))
			return true
		}); err != nil {
			return err
		}
		for _, name := range names {
			if err := t.raise(name, floor, false); err != nil && !errors.Is(err, errRow) {
				return err
			}
			if err := t.save(); err != nil {
				return err
			}
			t.queues = nil
		}
		return nil
	})
}
