package once

import "github.com/interlock-go/interlock/internal/rows"

// Dialect is the SQL of one database: one of the variables of this package.
type Dialect struct{ d dialect }

var (
	// PostgreSQL is the dialect of PostgreSQL, with any driver for database/sql whose errors
	// have a method SQLState, such as pgx and lib/pq.
	PostgreSQL = Dialect{postgres{rows.PostgreSQL}}

	// MySQL is the dialect of MySQL and MariaDB, with the driver
	// github.com/go-sql-driver/mysql. All tables must be InnoDB's.
	//
	// If the first of three calls with one key is rolled back, the two that wait can deadlock.
	// MySQL then ends one of them, with ErrDeadlock.
	MySQL = Dialect{mysql{rows.MySQL}}

	// SQLite is the dialect of SQLite, with any driver for database/sql. The first call of
	// a transaction takes the write lock of the database file. Give each connection a
	// busy_timeout: it bounds the wait for that.
	SQLite = Dialect{sqlite{rows.SQLite}}
)

type dialect interface {
	rows.Dialect

	// create makes the table, with an index of the times, if it does not exist.
	create(table, key string) string

	// now is the server's time, in seconds since 1970.
	now() string

	// unlessThere ends an INSERT that is to change nothing if the key is there. Without it
	// the INSERT fails as a duplicate.
	unlessThere() string

	// latest ends a SELECT that is to find what the INSERT has found, whatever the
	// transaction has read before.
	latest() string
}
