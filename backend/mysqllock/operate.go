package mysqllock

import (
	"context"
	"database/sql"
	"sync"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

func (s *store) Resize(ctx context.Context, queue string, capacity int64) (unsettled bool, err error) {
	for err = sqlcode.ErrMore; err == sqlcode.ErrMore; {
		unsettled, err = s.call(ctx, "CALL {p}resize(?,?)", []byte(queue), capacity)
	}
	return unsettled, err
}

func (s *store) Ask(ctx context.Context, queue, ticket string, what driver.Demand) (unsettled bool, err error) {
	if driver.CheckID(ticket) != nil {
		return false, driver.ErrGone // the rows have IDs of 16 bytes
	}
	return s.call(ctx, "CALL {p}ask(?,?,?)", []byte(queue), id(ticket), int(what))
}

func (s *store) Raise(ctx context.Context, queue string, floor uint64) error {
	_, err := s.call(ctx, "CALL {p}raise(?,?)", []byte(queue), floor)
	return err
}

func (s *store) Clock(ctx context.Context) (micros int64, err error) {
	err = s.aside(ctx, func(c *sql.Conn) error { return c.QueryRowContext(ctx, "SELECT "+database.Clock).Scan(&micros) })
	return micros, err
}

func (s *store) Settle(ctx context.Context, queue string) (unsettled bool, err error) {
	return s.call(ctx, "CALL {p}settle(?)", []byte(queue))
}

// walk is how far the queues were looked at.
type walk struct {
	sync.Mutex
	at int64
}

// Tidy removes rows, and looks at some of the queues, at others the next time.
func (s *store) Tidy(ctx context.Context) ([]string, error) {
	s.walk.Lock()
	at := s.walk.at
	s.walk.Unlock()
	all, err := s.names(ctx, "CALL {p}tidy(?,?)", at, perTidy)
	if err != nil {
		return nil, err
	}
	var more sql.NullInt64
	if err := s.row(ctx, "SELECT MIN(no) FROM {p}queues WHERE no > ?", []any{at + perTidy}, &more); err != nil {
		return nil, err
	}
	s.walk.Lock()
	defer s.walk.Unlock()
	if s.walk.at = 0; more.Valid {
		s.walk.at = more.Int64 - 1
	}
	return all, nil
}

// perTidy is how many queues are looked at in one exchange.
const perTidy = 2000
