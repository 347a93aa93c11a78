package pglock

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

func (s *store) Settle(ctx context.Context, queue string) (bool, error) {
	got, err := s.numbers(ctx, "settle", 1, queue)
	return err == nil && got[0] != 0, err
}

func (s *store) Ask(ctx context.Context, queue, id string, what driver.Demand) (bool, error) {
	if driver.CheckID(id) != nil {
		return false, driver.ErrGone // the server has UUIDs
	}
	letter := map[driver.Demand]string{driver.Revoke: "r", driver.Evict: "e", driver.Force: "x"}[what]
	got, err := s.numbers(ctx, "ask", 2, queue, id, letter)
	return unsettled(got), err
}

func (s *store) Raise(ctx context.Context, queue string, floor uint64) error {
	_, err := s.numbers(ctx, "raise", 1, queue, int64(floor))
	return err
}

// Resize takes out what does not fit any more, some with each exchange.
func (s *store) Resize(ctx context.Context, queue string, capacity int64) (bool, error) {
	for to := &capacity; ; {
		got, err := s.numbers(ctx, "resize", 3, queue, to)
		switch {
		case err == sqlcode.ErrMore:
		case err != nil || got[2] == 0:
			return unsettled(got), err
		default:
			to = nil
		}
	}
}

func (s *store) Clock(ctx context.Context) (micros int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT "+database.NowUS, pgx.QueryExecModeExec).Scan(&micros)
	return micros, err
}

func (s *store) Tidy(ctx context.Context) ([]string, error) { return rows[string](ctx, s, "tidy") }
