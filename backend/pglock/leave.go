package pglock

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) End(ctx context.Context, o exchange.Session, _ []exchange.Leave) ([]string, error) {
	return rows[string](ctx, s, "end", o.ID)
}

func (s *store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	if l.Tombstone == 0 && s.alone(l.Queue) {
		if left, err := rows[int64](ctx, s, "drop", l.Queue, l.ID, l.Session.ID, l.Clean); err != nil || len(left) == 1 {
			return false, err
		}
	}
	got, err := s.numbers(ctx, "leave", 3, l.Queue, l.ID, l.Session.ID, l.Clean, l.Tombstone.Microseconds(), s.crowds.has(l.Queue))
	if err == nil {
		s.crowds.note(l.Queue, got[2] != 0)
	}
	return unsettled(got), err
}

func (s *store) Withdraw(ctx context.Context, o exchange.Session, queue string, ids []string, clean bool) (gone []bool, more bool, err error) {
	got, err := s.numbers(ctx, "withdraw", 2+len(ids), queue, o.ID, ids, clean)
	if err != nil {
		return nil, false, err
	}
	gone = make([]bool, len(ids))
	for i := range gone {
		gone[i] = got[2+i] == 0
	}
	return gone, unsettled(got), nil
}

func (s *store) Shrink(ctx context.Context, o exchange.Session, t exchange.Ref, units int64) (bool, error) {
	got, err := s.numbers(ctx, "shrink", 2, t.Queue, t.ID, o.ID, units)
	return unsettled(got), err
}

func (s *store) Keep(ctx context.Context, o exchange.Session, t exchange.Ref, d time.Duration) error {
	_, err := s.numbers(ctx, "keep", 1, t.Queue, t.ID, o.ID, text(o.Owner), max(d.Microseconds(), 1))
	return err
}
