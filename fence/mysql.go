package fence

import "github.com/interlock-go/interlock/internal/ident"

// MySQL is the dialect of MySQL and MariaDB. The tables must be InnoDB's. A
// check of another transaction waits until this one ends, for
// innodb_lock_wait_timeout at most.
//
// Check before you read anything, not only what the token protects: in a
// transaction of REPEATABLE READ, the default, all plain reads are of the moment
// of the first.
//
// Two transactions that both check a resource for the first time of all can
// deadlock if the first is rolled back; MySQL then ends one of them (1213).
var MySQL Dialect = mysql{ident.MySQL}

type mysql struct{ ident.Syntax }

// Names are compared byte by byte, which no collation of a text does: trailing
// spaces do not count with most.
func (mysql) create(table string) string {
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (resource VARBINARY(512) PRIMARY KEY, token BIGINT NOT NULL) ENGINE = InnoDB`
}

// The row is locked even if nothing changes.
func (mysql) raise(table string) string {
	return `INSERT INTO ` + table + ` (resource, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = greatest(token, ?)`
}

func (mysql) latest() string { return " FOR UPDATE" }

// A row that is changed to what it was counts or not, as the client wishes.
func (mysql) counts() bool { return false }
