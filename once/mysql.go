package once

import "github.com/interlock-go/interlock/internal/rows"

type mysql struct{ rows.Dialect }

// Keys are compared byte by byte, which no collation of a text does: trailing spaces do not
// count with most.
func (mysql) create(table, key string) string {
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (` + key + ` VARBINARY(512) PRIMARY KEY,
		request VARBINARY(32), token BIGINT, done SMALLINT NOT NULL, result MEDIUMBLOB, created BIGINT NOT NULL, INDEX (created)) ENGINE = InnoDB`
}

func (mysql) now() string { return "unix_timestamp()" }

// INSERT IGNORE would let other errors pass, too, and how many rows ON DUPLICATE KEY UPDATE
// counts depends on the client.
func (mysql) unlessThere() string { return "" }

// The failed INSERT has locked the row, shared. FOR UPDATE would have two that repeat a call
// deadlock.
func (mysql) latest() string { return " LOCK IN SHARE MODE" }
