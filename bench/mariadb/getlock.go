package mariadb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/interlock-go/interlock/bench/workload"
)

// openGetLock makes clients of the locks that the server has: they belong to a
// connection, so that everybody who waits or holds has one. They have no token and
// end with the connection.
func openGetLock(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(ctx context.Context, _ workload.Options) (workload.Client, error) {
		db, err := open(url)
		if err != nil {
			return workload.Client{}, err
		}
		db.SetMaxIdleConns(100)
		return workload.Client{Lock: func(name string) workload.Lock { return getLock(db, name) }, Close: db.Close}, nil
	}
}

// year is the longest that a server waits.
const year = 31536000

func getLock(db *sql.DB, name string) workload.Lock {
	return func(ctx context.Context) (h workload.Held, err error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return h, err
		}
		if err := ask(ctx, conn, "SELECT GET_LOCK(?, ?)", name, year); err != nil {
			_ = conn.Close()
			return h, err
		}
		return workload.Held{Release: func() error {
			err := ask(context.Background(), conn, "SELECT RELEASE_LOCK(?)", name)
			return errors.Join(err, conn.Close())
		}}, nil
	}
}

// ask expects the answer 1.
func ask(ctx context.Context, conn *sql.Conn, query string, args ...any) error {
	var n sql.NullInt64
	if err := conn.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return err
	}
	if n.Int64 != 1 {
		return errors.New(query + ": the lock is not held")
	}
	return nil
}
