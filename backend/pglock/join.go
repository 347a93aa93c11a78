package pglock

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, s, changes, answer)
}

func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	for {
		got, err := s.numbers(ctx, "join", statusNumbers, j.Queue, string(j.Kind), j.Capacity, j.ID, j.Units, j.Session.ID, text(j.Session.Owner),
			j.Note, j.Hold.Microseconds(), j.NoWait, j.Retry, s.crowds.has(j.Queue))
		if err == sqlcode.ErrMore {
			continue
		}
		if err != nil {
			return exchange.Status{}, err
		}
		st := status(got)
		if st.State == exchange.Waiting {
			s.crowds.note(j.Queue, true)
		}
		return st, nil
	}
}

// Flags of a ticket.
const (
	fixed = 1 << iota
	evicted
	revoked
	_ // kept
	stray
)

const statusNumbers = 10

// status reads what the function standing returns.
func status(n []int64) exchange.Status {
	if len(n) < statusNumbers {
		return exchange.Status{}
	}
	state := exchange.Held
	if n[0] == 2 {
		state = exchange.Waiting
	}
	return exchange.Status{
		State: state, Token: uint64(n[1]), Inherited: n[2] != 0, Wanted: n[3] != 0,
		Fixed: n[4]&fixed != 0, Evicted: n[4]&evicted != 0, Revoked: n[4]&revoked != 0, Stray: n[4]&stray != 0,
		Left: us(n[5]), Hold: us(n[6]), Due: us(n[7]), Unsettled: n[8] != 0, Ahead: int(n[9]),
	}
}

func us(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// unsettled is the second number of an answer.
func unsettled(got []int64) bool { return len(got) > 1 && got[1] != 0 }
