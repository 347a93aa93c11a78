package postgres

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/bench/workload"
)

// advisory uses the locks that the server has: they belong to a connection, so
// that everybody who waits or holds has one. They have no token, end with the
// connection, and do not work through a pooler of transactions.
type advisory struct {
	url  string
	mu   sync.Mutex
	free []*pgx.Conn
}

func openAdvisory(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(ctx context.Context, _ workload.Options) (workload.Client, error) {
		a := &advisory{url: url}
		conn, err := a.get(ctx)
		if err != nil {
			return nil, err
		}
		a.put(conn)
		return a, nil
	}
}

// get returns a connection that nobody else uses.
func (a *advisory) get(ctx context.Context) (*pgx.Conn, error) {
	a.mu.Lock()
	if n := len(a.free); n > 0 {
		conn := a.free[n-1]
		a.free = a.free[:n-1]
		a.mu.Unlock()
		return conn, nil
	}
	a.mu.Unlock()
	return pgx.Connect(ctx, a.url)
}

func (a *advisory) put(conn *pgx.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, conn)
}

func (a *advisory) Close() error {
	var err error
	for _, conn := range a.free {
		err = errors.Join(err, conn.Close(context.Background()))
	}
	return err
}

func key(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return int64(h.Sum64())
}

func (a *advisory) Lock(name string) workload.Lock {
	key := key(name)
	return func(ctx context.Context) (workload.Held, error) {
		conn, err := a.get(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", key); err != nil {
			_ = conn.Close(context.Background())
			return nil, err
		}
		return advisoryHeld{a, conn, key}, nil
	}
}

// Queued counts those who wait.
func (a *advisory) Queued(ctx context.Context, name string) (n int, err error) {
	conn, err := a.get(ctx)
	if err != nil {
		return 0, err
	}
	defer a.put(conn)
	key := uint64(key(name))
	err = conn.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = $1 AND objid = $2",
		uint32(key>>32), uint32(key)).Scan(&n)
	return n, err
}

type advisoryHeld struct {
	a    *advisory
	conn *pgx.Conn
	key  int64
}

func (h advisoryHeld) Release() error {
	var held bool
	err := h.conn.QueryRow(context.Background(), "SELECT pg_advisory_unlock($1)", h.key).Scan(&held)
	if err != nil {
		_ = h.conn.Close(context.Background())
		return err
	}
	h.a.put(h.conn)
	if !held {
		return errors.New("the lock was not held any more")
	}
	return nil
}
