package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/bench/row"
)

const makeRows = `CREATE TABLE IF NOT EXISTS bench_rows (name text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL)`

const (
	take = `INSERT INTO bench_rows AS r VALUES ($1, $2, now() + $3)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires WHERE r.expires < now()`
	extend = `UPDATE bench_rows SET expires = now() + $3 WHERE name = $1 AND owner = $2`
	remove = `DELETE FROM bench_rows WHERE name = $1 AND owner = $2`
)

// rows is a table over a pool.
type rows struct{ pool *pgxpool.Pool }

// openRows makes a pool of so many connections at most; 0: as many as the client
// has by default.
func openRows(url string, connections int32) func(context.Context) (row.Table, error) {
	return func(ctx context.Context) (row.Table, error) {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return nil, err
		}
		if connections > 0 {
			config.MaxConns = connections
		}
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		return rows{pool}, nil
	}
}

func (r rows) Take(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	return r.one(ctx, take, name, owner, ttl)
}

func (r rows) Extend(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	return r.one(ctx, extend, name, owner, ttl)
}

func (r rows) Delete(ctx context.Context, name, owner string) (bool, error) {
	return r.one(ctx, remove, name, owner)
}

func (r rows) one(ctx context.Context, sql string, args ...any) (bool, error) {
	tag, err := r.pool.Exec(ctx, sql, args...)
	return tag.RowsAffected() == 1, err
}

func (r rows) Close() error {
	r.pool.Close()
	return nil
}
