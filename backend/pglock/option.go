package pglock

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Option changes how a database is used.
type Option func(*config)

type config struct {
	schema Schema
	kind   string // logged or unlogged, if that was asked for
	direct string
	listen *pgx.ConnConfig // of the connection for news, if direct says it
}

// In has the driver use the tables of a schema. If they are there already, they have
// to be of its kind.
func In(s Schema) Option {
	return func(c *config) {
		c.schema, c.kind = s, "unlogged"
		if s.Logged {
			c.kind = "logged"
		}
	}
}

// Direct is the URL of the connection on which news arrive, for programs whose pool
// leads to a pooler.
func Direct(url string) Option { return func(c *config) { c.direct = url } }

func (c *config) check() error {
	if err := c.schema.check(); err != nil {
		return err
	}
	if c.direct == "" {
		return nil
	}
	var err error
	c.listen, err = directConfig(c.direct)
	return err
}

// New uses a pool that the program has already; Close of the driver leaves it open.
// While somebody waits the driver opens one connection more, outside the pool; and for
// heartbeats up to two, if calls that wait for others leave them none.
//
// If the tables are logged, all of its connections are its own, as many as the pool may
// have, and made in the same way: only connections that it has made itself let it hear
// that a commit was not waited for by a synchronous standby, which is no grant. In
// unlogged tables this limit is left: a value or a lease of a fixed time is taken for
// replicated though that wait was cancelled (pg_cancel_backend).
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (driver.Driver, error) {
	c := &config{}
	for _, o := range opts {
		o(c)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return newDriver(ctx, newStore(poolOf(pool), c))
}

func newDriver(ctx context.Context, s *store) (driver.Driver, error) {
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if !s.pool.own && !s.unlogged.Load() {
		own, err := poolLike(s.pool.Pool)
		if err != nil {
			s.Close()
			return nil, s.Explain(err)
		}
		s.pool.leave()
		s.pool = own
	}
	d := exchange.New(s, s.channel)
	d.Limit(s.pool.limiter)
	return d, nil
}
