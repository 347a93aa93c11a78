package rowlock

import "github.com/interlock-go/interlock/internal/rows"

// Dialect is the way of one database to lock rows: one of the variables of this
// package.
type Dialect struct{ rows rows.Dialect }

var (
	// PostgreSQL is the dialect of PostgreSQL, with any driver for database/sql
	// whose errors have a method SQLState, such as pgx and lib/pq.
	PostgreSQL = Dialect{rows.PostgreSQL}

	// MySQL is the dialect of MySQL 8.0 and later and of MariaDB 10.3 and later,
	// with the driver github.com/go-sql-driver/mysql. Tables must be InnoDB's:
	// others have neither transactions nor row locks, and no call can tell.
	MySQL = Dialect{rows.MySQL}

	// SQLite is the dialect of SQLite, with any driver for database/sql. It has
	// one lock for all that is written to a file; the calls say what that means.
	SQLite = Dialect{rows.SQLite}
)
