package postgres

import (
	"context"
	"errors"
	"hash/fnv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/bench/workload"
)

// openAdvisory makes clients of the locks that the server has: they belong to a
// connection, so that everybody who waits or holds has one. They have no token, end
// with the connection, and do not work through a pooler of transactions.
func openAdvisory(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(ctx context.Context, _ workload.Options) (workload.Client, error) {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return workload.Client{}, err
		}
		config.MaxConns = 100
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return workload.Client{}, err
		}
		end := func() error {
			pool.Close()
			return nil
		}
		return workload.Client{Close: end, Lock: func(name string) workload.Lock {
			h := fnv.New64a()
			_, _ = h.Write([]byte(name)) // never fails
			return advisory(pool, int64(h.Sum64()))
		}}, nil
	}
}

func advisory(pool *pgxpool.Pool, key int64) workload.Lock {
	return func(ctx context.Context) (h workload.Held, err error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return h, err
		}
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", key); err != nil {
			conn.Release()
			return h, err
		}
		return workload.Held{Release: func() error {
			defer conn.Release()
			var held bool
			err := conn.QueryRow(context.Background(), "SELECT pg_advisory_unlock($1)", key).Scan(&held)
			if err == nil && !held {
				err = errors.New("the lock is not held any more")
			}
			return err
		}}, nil
	}
}
