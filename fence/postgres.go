package fence

import "github.com/interlock-go/interlock/internal/ident"

// PostgreSQL is the dialect of PostgreSQL. A check of another transaction waits
// until this one ends. In a transaction of REPEATABLE READ or SERIALIZABLE that
// has read before, PostgreSQL refuses a check with a serialization failure
// (40001) if somebody else has checked since, and the transaction has to begin
// again.
var PostgreSQL Dialect = postgres{ident.PostgreSQL}

type postgres struct{ ident.Syntax }

func (postgres) create(table string) string {
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (resource TEXT COLLATE "C" PRIMARY KEY, token BIGINT NOT NULL)`
}

func (postgres) raise(table string) string {
	return `INSERT INTO ` + table + ` AS seen (resource, token) VALUES ($1, $2)
		ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE seen.token <= $3`
}

// A new statement of READ COMMITTED sees what the one before has waited for.
func (postgres) latest() string { return "" }
func (postgres) counts() bool   { return true }
