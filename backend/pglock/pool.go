package pglock

import (
	"context"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/backoff"
)

// A pool is the connections of all clients of this process that have the same URL, or
// that were given the same pool. A new connection is slow: the server reads each
// function for it once.
type pool struct {
	*pgxpool.Pool
	own     bool // it was made here, and ends with its last user
	place   any  // its key in pools
	users   int  // guarded by pools.mu
	limiter *exchange.Limiter

	ttl     atomic.Int64 // the shortest of all sessions
	senders senders
	wide    atomic.Bool // a pooler refuses connections that say where they look for functions

	mu      sync.Mutex
	reserve *pgxpool.Pool // for heartbeats; nil until one has needed it
}

// pools are those of this process.
var pools = struct {
	mu  sync.Mutex
	all map[any]*pool
}{all: map[any]*pool{}}

// address tells apart what a connection string, which need not say everything, leads
// to.
type address struct {
	text, host, user, password, database string
	port                                 uint16
}

// poolTo returns the pool of a configuration, until it is left. ParseConfig has made
// the configuration of nothing but the text and the surroundings.
func poolTo(c *pgxpool.Config, text string) (*pool, error) {
	o := c.ConnConfig
	return share(address{text, o.Host, o.User, o.Password, o.Database, o.Port}, true, func(p *pool) (*pgxpool.Pool, error) {
		c.BeforeConnect = p.narrow
		// It opens what is needed, and finds out about broken connections by using them:
		// callers repeat.
		return pgxpool.NewWithConfig(context.Background(), c)
	})
}

// narrow has the connections of a pool look for functions in pg_catalog only, and plan as functions do, unless they
// lead to a pooler that does not let them say so.
func (p *pool) narrow(_ context.Context, c *pgx.ConnConfig) error {
	if !p.wide.Load() {
		maps.Copy(c.RuntimeParams, map[string]string{"search_path": "pg_catalog", "plan_cache_mode": "force_generic_plan",
			"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"})
	}
	return nil
}

// poolOf is one that belongs to the program.
func poolOf(p *pgxpool.Pool) *pool {
	shared, _ := share(p, false, func(*pool) (*pgxpool.Pool, error) { return p, nil }) // never fails
	return shared
}

// poolLike has connections of its own, which are made like those of a program's pool and
// hear warnings.
func poolLike(p *pgxpool.Pool) (*pool, error) {
	type like struct{ *pgxpool.Pool }
	return share(like{p}, true, func(*pool) (*pgxpool.Pool, error) {
		c := p.Config()
		c.MinConns, c.MinIdleConns = 0, 0
		hearWarnings(c.ConnConfig)
		return pgxpool.NewWithConfig(context.Background(), c)
	})
}

func share(place any, own bool, open func(*pool) (*pgxpool.Pool, error)) (*pool, error) {
	pools.mu.Lock()
	defer pools.mu.Unlock()
	p := pools.all[place]
	if p == nil {
		p = &pool{own: own, place: place}
		p.ttl.Store(math.MaxInt64)
		var err error
		if p.Pool, err = open(p); err != nil {
			return nil, err
		}
		calls := max(1, int(p.Config().MaxConns)-1) // a pool of one is shared by turns
		p.limiter = exchange.NewLimiter(calls, 1, 1)
		pools.all[place] = p
	}
	p.users++
	return p, nil
}

// leave closes it after its last user, unless it belongs to the program. A server that does not
// answer holds up nobody for long.
func (p *pool) leave() {
	pools.mu.Lock()
	p.users--
	last := p.users == 0
	if last {
		delete(pools.all, p.place)
	}
	pools.mu.Unlock()
	if !last {
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.reserve != nil {
			p.reserve.Close()
		}
		if p.own {
			p.Close()
		}
	}()
	select {
	case <-closed:
	case <-time.After(parting):
	}
}

// parting is how long who closes a pool waits for the server to end the connections. pgx gives up
// one that does not answer after 15 seconds.
const parting = time.Second

const (
	// patience is how long a heartbeat waits for a connection while all are in use.
	patience = 20 * time.Millisecond
	// reserved bounds the connections of heartbeats that have waited for so long.
	reserved = 2
)

// urgent returns a connection for a heartbeat, which must not wait until those have
// theirs who wait for locks: if the pool has none soon, another one is opened beside
// it, and kept for a while. The pool asks the server about a connection that has rested, and
// over a long way that alone takes longer: so the first of the two counts, and the other one is
// given back and not cut off, which would close it. If the server has no more, the heartbeat waits
// for one of the pool.
func (p *pool) urgent(ctx context.Context) (*pgxpool.Conn, error) {
	done := make(chan struct{})
	defer close(done)
	first := take(ctx, done, p.Acquire)
	soon := time.NewTimer(patience)
	defer soon.Stop()
	select {
	case got := <-first:
		if got.err == nil || !database.Full(got.err) || ctx.Err() != nil {
			return got.conn, got.err
		}
		first = nil
	case <-soon.C:
	}
	r, err := p.beside()
	if err != nil {
		return nil, err
	}
	second := take(ctx, done, r.Acquire)
	for first != nil || second != nil {
		var got taken
		select {
		case got = <-first:
			first = nil
		case got = <-second:
			second = nil
		}
		if got.err == nil || ctx.Err() != nil {
			return got.conn, got.err
		}
	}
	return p.connect(ctx)
}

type taken struct {
	conn *pgxpool.Conn
	err  error
}

// take acquires a connection beside its caller. One that comes after done goes back.
func take(ctx context.Context, done <-chan struct{}, acquire func(context.Context) (*pgxpool.Conn, error)) <-chan taken {
	c := make(chan taken)
	go func() {
		conn, err := acquire(ctx)
		select {
		case c <- taken{conn, err}:
		case <-done:
			if err == nil {
				conn.Release()
			}
		}
	}()
	return c
}

func (p *pool) beside() (*pgxpool.Pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reserve == nil {
		c := p.Config()
		c.MaxConns, c.MinConns, c.MinIdleConns = reserved, 0, 0
		c.MaxConnIdleTime, c.HealthCheckPeriod = 30*time.Second, 15*time.Second
		r, err := pgxpool.NewWithConfig(context.Background(), c)
		if err != nil {
			return nil, err
		}
		p.reserve = r
	}
	return p.reserve, nil
}

// connect takes a connection. Where the server has no more of them, it waits for one of those that
// the pool has.
func (p *pool) connect(ctx context.Context) (*pgxpool.Conn, error) {
	for pauses := (backoff.Backoff{Most: 50 * time.Millisecond}); ; {
		conn, err := p.Acquire(ctx)
		if err == nil || !database.Full(err) || p.Stat().TotalConns() == 0 || pauses.Sleep(ctx) != nil {
			return conn, err
		}
	}
}

// giveUp closes a connection if others are left. It reports false if there are none, or if
// all belong to the program.
func (p *pool) giveUp(ctx context.Context) bool {
	if !p.own || p.Stat().TotalConns() < 2 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := p.Acquire(ctx)
	if err != nil {
		return false
	}
	_ = conn.Hijack().Close(ctx)
	return true
}

// renew has new connections made, which may lead elsewhere.
func (p *pool) renew() {
	p.Reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reserve != nil {
		p.reserve.Reset()
	}
}
