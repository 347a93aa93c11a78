package pglock

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// senders are the server processes whose users may change tickets. Whoever may connect to the
// database may send to any channel, and who may read the tables knows the channels and the
// tickets. With a message comes the number of the process that has sent it, which nobody can forge:
// so messages of these are believed, and those of others are a reason to ask.
//
// All are asked for at once, and again while messages come: a number may get another user.
type senders struct {
	mu     sync.Mutex
	known  map[uint32]bool
	at     time.Time // when they were asked for
	asking bool
	tried  time.Time // when that began last
}

const (
	sendersAgain = 2 * time.Second        // they are asked for again after so long
	sendersLast  = 10 * time.Second       // and believed for so long: the server cannot make all numbers anew in that time
	sendersRest  = 200 * time.Millisecond // between two questions
)

// trusts reports whether messages of a process are believed.
func (x *senders) trusts(s *store, process uint32) bool {
	x.mu.Lock()
	age := time.Since(x.at)
	sure := x.known[process] && age < sendersLast
	x.mu.Unlock()
	if !sure || age > sendersAgain {
		x.ask(s)
	}
	return sure
}

// ask asks for them, unless somebody has just done so.
func (x *senders) ask(s *store) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if now := time.Now(); !x.asking && now.Sub(x.tried) > sendersRest {
		x.asking, x.tried = true, now
		s.asks.Go(func() { x.learn(s, now) })
	}
}

func (x *senders) learn(s *store, sent time.Time) {
	known, err := s.senders()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asking = false
	if err == nil {
		x.known, x.at = known, sent
	}
}

// senders asks for the processes whose users may change tickets.
func (s *store) senders() (map[uint32]bool, error) {
	ctx, cancel := context.WithTimeout(s.ctx, newsPatience)
	defer cancel()
	c, err := s.pool.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	rows, err := c.Query(ctx, `SELECT a.pid FROM pg_catalog.pg_stat_get_activity(NULL) a JOIN pg_catalog.pg_database d ON d.oid = a.datid
		WHERE d.datname = current_database() AND pg_catalog.has_table_privilege(a.usesysid, $1::text, 'UPDATE')`, s.mode, s.schema.name("ticket"))
	if err != nil {
		return nil, err
	}
	known := map[uint32]bool{}
	var pid int32
	_, err = pgx.ForEachRow(rows, []any{&pid}, func() error {
		known[uint32(pid)] = true
		return nil
	})
	return known, err
}
