package mariadb

import (
	"context"
	"database/sql"
	"time"

	"github.com/interlock-go/interlock/bench/row"
)

const makeRows = `CREATE TABLE IF NOT EXISTS bench_rows (name VARCHAR(190) CHARACTER SET ascii PRIMARY KEY,
owner VARCHAR(64) CHARACTER SET ascii NOT NULL, expires DATETIME(6) NOT NULL) ENGINE=InnoDB`

// A row that is the owner's counts once if it is new and twice if it was somebody
// else's. expires is assigned last: the assignment before it has to see the old one.
const (
	take = `INSERT INTO bench_rows VALUES (?, ?, NOW(6) + INTERVAL ? MICROSECOND)
ON DUPLICATE KEY UPDATE owner = IF(expires < NOW(6), VALUES(owner), owner), expires = IF(expires < NOW(6), VALUES(expires), expires)`
	extend = `UPDATE bench_rows SET expires = NOW(6) + INTERVAL ? MICROSECOND WHERE name = ? AND owner = ?`
	remove = `DELETE FROM bench_rows WHERE name = ? AND owner = ?`
)

// rows is a table over the pool of database/sql.
type rows struct{ db *sql.DB }

// openRows makes a pool that keeps so many connections; 0: as many as it does by
// default.
func openRows(url string, connections int) func(context.Context) (row.Table, error) {
	return func(context.Context) (row.Table, error) {
		db, err := open(url)
		if err != nil {
			return nil, err
		}
		if connections > 0 {
			db.SetMaxOpenConns(connections)
			db.SetMaxIdleConns(connections)
		}
		return rows{db}, nil
	}
}

func (r rows) Take(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	return r.one(ctx, take, name, owner, ttl.Microseconds())
}

func (r rows) Extend(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	return r.one(ctx, extend, ttl.Microseconds(), name, owner)
}

func (r rows) Delete(ctx context.Context, name, owner string) (bool, error) {
	return r.one(ctx, remove, name, owner)
}

func (r rows) one(ctx context.Context, sql string, args ...any) (bool, error) {
	result, err := r.db.ExecContext(ctx, sql, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

func (r rows) Close() error { return r.db.Close() }
