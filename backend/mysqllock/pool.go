package mysqllock

import (
	"context"
	"database/sql"
	"math"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver/exchange"
)

// stores are those of this process. All clients that have the same URL, or the same pool and the same tables,
// share one, with its connections, its mailbox and what is heard there: a server has room for a few
// connections of each process.
var stores = struct {
	mu  sync.Mutex
	all map[any]*store
}{all: map[any]*store{}}

// share returns the store of a place, until it was closed as often as it was shared.
func share(place any, make func() *store) *store {
	stores.mu.Lock()
	defer stores.mu.Unlock()
	s := stores.all[place]
	if s == nil {
		s = make()
		s.place, s.mailbox = place, exchange.NewMailbox()
		s.ttl.Store(math.MaxInt64)
		stores.all[place] = s
	}
	s.users++
	return s
}

func (s *store) Close() {
	stores.mu.Lock()
	s.users--
	last := s.users == 0
	if last {
		delete(stores.all, s.place)
	}
	stores.mu.Unlock()
	if !last {
		return
	}
	s.subscribers.running.Wait()
	s.subscribers.setAnchor(nil)
	if s.own {
		_ = s.db.Close()
		_ = s.news.Close()
	}
}

// connect takes a connection of the pool. Where the server has no more of them for this
// client, it waits for one of those that the client has.
func (s *store) connect(ctx context.Context) (*sql.Conn, error) {
	for {
		conn, err := s.db.Conn(ctx)
		if err == nil || !database.Full(err) || !s.narrow() {
			return conn, err
		}
	}
}

// aside makes an exchange that has nothing to do with what is in the tables: the connection is
// not greeted, for which rights may be missing.
func (s *store) aside(ctx context.Context, f func(*sql.Conn) error) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}

// narrowFor is how long a pool has no more connections than it has when the server refuses
// another one.
const narrowFor = time.Second

// narrow has calls share the connections that there are. It reports false if there are none:
// the pool counts those that others are just refused, so that two callers could wait for each
// other, and never hear why.
func (s *store) narrow() bool {
	if !s.own || s.to.made.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db.SetMaxOpenConns(max(1, s.db.Stats().OpenConnections))
	if !s.narrowed {
		s.narrowed = true
		time.AfterFunc(narrowFor, s.widen)
	}
	return true
}

// connectForNews takes a connection of the other pool. Where the server has no more of them, one
// of those for exchanges is given up: who does not hear of a grant holds up a whole line.
func (s *store) connectForNews(ctx context.Context) (*sql.Conn, error) {
	for try := 1; ; try++ {
		conn, err := s.news.Conn(ctx)
		if err == nil || !database.Full(err) || try == newsTries || !s.giveUp(ctx) {
			return conn, err
		}
	}
}

const (
	newsTries      = 3
	leastExchanges = 2 // connections that are not given up
)

// giveUp closes a connection for exchanges, and opens no other one for a moment. It reports
// false if there are too few.
func (s *store) giveUp(ctx context.Context) bool {
	if !s.own || s.to.made.Load() <= leastExchanges {
		return false
	}
	s.narrow()
	ctx, cancel := context.WithTimeout(ctx, narrowFor)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return false
	}
	s.mu.Lock()
	s.db.SetMaxOpenConns(max(leastExchanges, s.db.Stats().OpenConnections-1))
	s.mu.Unlock()
	database.Discard(conn)
	return true
}

func (s *store) widen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.narrowed = false
	s.db.SetMaxOpenConns(s.most)
	s.db.SetMaxIdleConns(s.most)
}
