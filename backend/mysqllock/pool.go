package mysqllock

import (
	"context"
	"database/sql"
	"time"
)

// connect takes a connection of the pool. Where the server has no more of them for this
// client, it waits for one of those that the client has.
func (s *store) connect(ctx context.Context) (*sql.Conn, error) {
	for {
		conn, err := s.db.Conn(ctx)
		if err == nil || !full(err) || !s.narrow() {
			return conn, err
		}
	}
}

// narrowFor is how long a pool has no more connections than it has when the server refuses
// another one.
const narrowFor = time.Second

// narrow has calls share the connections that there are. It reports false if there are none.
func (s *store) narrow() bool {
	if !s.own {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.db.Stats().OpenConnections
	if there == 0 {
		return false
	}
	s.db.SetMaxOpenConns(there)
	if !s.narrowed {
		s.narrowed = true
		time.AfterFunc(narrowFor, s.widen)
	}
	return true
}

func (s *store) widen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.narrowed = false
	s.db.SetMaxOpenConns(s.most)
	s.db.SetMaxIdleConns(s.most)
}
