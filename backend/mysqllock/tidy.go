package mysqllock

import (
	"context"
	"database/sql"
	"sync"
)

// perTidy is how many queues are looked at in one exchange.
const perTidy = 2000

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
