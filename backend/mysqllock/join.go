package mysqllock

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

func (s *store) Join(ctx context.Context, j exchange.Join) (st exchange.Status, err error) {
	if len(j.Kind) > 64 {
		return st, driver.Invalid(fmt.Errorf("the kind %.20q… has more than 64 bytes", j.Kind))
	}
	token, short, err := s.shortJoin(ctx, &j)
	if err != nil {
		return st, err
	}
	if short {
		return exchange.Status{State: exchange.Held, Token: token}, nil
	}
	var code, due int64
	hold := ceil(j.Hold)
	into := []any{&code, &token, &st.Inherited, &due, &st.Unsettled}
	if j.NoWait || j.Retry || hold > 0 {
		err = s.row(ctx, "CALL {p}join(?,?,?,?,?,?,?,?,?,?,?)", []any{
			[]byte(j.Queue), id(j.ID), []byte(j.Kind), j.Units, j.Capacity, j.NoWait, hold, j.Retry, id(j.Session.ID), cut(j.Session.Owner), notNil(j.Note),
		}, into...)
	} else {
		err = s.living(ctx, j.Session.ID, "CALL {p}line(?,?,?,?,?,?,?,?)", []any{
			[]byte(j.Queue), id(j.ID), []byte(j.Kind), j.Units, j.Capacity, id(j.Session.ID), notNil(j.Note),
		}, into...)
	}
	if err != nil {
		return st, err
	}
	if code == joinWaits || code == sqlcode.Busy {
		s.crowds.add(j.Queue)
	}
	switch code {
	case joinHeld:
		st.State, st.Token = exchange.Held, token
		if hold > 0 {
			st.Fixed, st.Left, st.Hold = true, micros(hold), micros(hold)
		}
	case joinWaits:
		st.State, st.Inherited, st.Due = exchange.Waiting, false, micros(due)
	case joinStands:
		found, err := s.Look(ctx, j.Session, []exchange.Ref{{Queue: j.Queue, ID: j.ID}})
		if err != nil {
			return st, err
		}
		if st = found[0]; st.State == exchange.Gone {
			return st, driver.ErrGone
		}
	default:
		return st, sqlcode.Err(code)
	}
	return st, nil
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// The answers of the procedure join that are no errors.
const (
	joinHeld = iota
	joinWaits
	joinStands
)
