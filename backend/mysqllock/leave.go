package mysqllock

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

func (s *store) End(ctx context.Context, o exchange.Session, _ []exchange.Leave) ([]string, error) {
	s.ends.end(o.ID)
	return s.names(ctx, "CALL {p}end(?)", id(o.ID))
}

func (s *store) Leave(ctx context.Context, l exchange.Leave) (unsettled bool, err error) {
	if done, err := s.shortLeave(ctx, &l); done || err != nil {
		return false, err
	}
	var code int64
	var told []byte
	of, into := []any{[]byte(l.Queue), id(l.ID), id(l.Session.ID), l.Clean}, []any{&code, &unsettled, &told}
	if l.Tombstone > 0 {
		err = s.row(ctx, "CALL {p}leave(?,?,?,?,?,?)", append(of, ceil(l.Tombstone), []byte(s.mailbox)), into...)
	} else {
		err = s.living(ctx, l.Session.ID, "CALL {p}pass(?,?,?,?,?,?)", append(of, []byte(s.mailbox)), into...)
	}
	if err != nil {
		s.subscribers.missed()
		return false, err
	}
	return unsettled, errors.Join(s.subscribers.tell(told), sqlcode.Err(code))
}

func (s *store) Withdraw(ctx context.Context, o exchange.Session, queue string, ids []string, clean bool) (gone []bool, unsettled bool, err error) {
	var all, stood []byte
	for _, one := range ids {
		all = append(all, id(one)...)
	}
	var code int64
	err = s.row(ctx, "CALL {p}withdraw(?,?,?,?)", []any{[]byte(queue), all, id(o.ID), clean}, &code, &stood, &unsettled)
	if err == nil {
		err = sqlcode.Err(code)
	}
	if err == nil && len(stood) != len(ids) {
		err = errAnswer
	}
	if err != nil {
		return nil, false, err
	}
	gone = make([]bool, len(ids))
	for i := range gone {
		gone[i] = stood[i] == '0'
	}
	return gone, unsettled, nil
}

func (s *store) Shrink(ctx context.Context, o exchange.Session, t exchange.Ref, units int64) (unsettled bool, err error) {
	return s.call(ctx, "CALL {p}shrink(?,?,?,?)", []byte(t.Queue), id(t.ID), id(o.ID), units)
}

func (s *store) Keep(ctx context.Context, o exchange.Session, t exchange.Ref, d time.Duration) error {
	_, err := s.call(ctx, "CALL {p}keep(?,?,?,?,?)", []byte(t.Queue), id(t.ID), id(o.ID), cut(o.Owner), ceil(d))
	return err
}
