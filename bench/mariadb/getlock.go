package mariadb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/interlock-go/interlock/bench/workload"
)

// getLock uses the locks that the server has: they belong to a connection, so
// that everybody who waits or holds has one. They have no token and end with the
// connection.
type getLock struct{ db *sql.DB }

func openGetLock(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(ctx context.Context, _ workload.Options) (workload.Client, error) {
		db, err := open(url)
		if err != nil {
			return nil, err
		}
		db.SetMaxIdleConns(100)
		return getLock{db}, db.PingContext(ctx)
	}
}

func (g getLock) Close() error { return g.db.Close() }

// year is the longest that a server waits.
const year = 31536000

func (g getLock) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		conn, err := g.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		h := getLockHeld{conn, name}
		if err := h.ask(ctx, "SELECT GET_LOCK(?, ?)", name, year); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return h, nil
	}
}

type getLockHeld struct {
	conn *sql.Conn
	name string
}

func (h getLockHeld) Release() error {
	err := h.ask(context.Background(), "SELECT RELEASE_LOCK(?)", h.name)
	return errors.Join(err, h.conn.Close())
}

// ask expects the answer 1.
func (h getLockHeld) ask(ctx context.Context, query string, args ...any) error {
	var n sql.NullInt64
	if err := h.conn.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return err
	}
	if n.Int64 != 1 {
		return errors.New(query + ": the lock is not held")
	}
	return nil
}
