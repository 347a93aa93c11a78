package once

import "github.com/interlock-go/interlock/internal/rows"

type postgres struct{ rows.Dialect }

func (postgres) create(table, key string) string {
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (` + key + ` TEXT COLLATE "C" PRIMARY KEY,
		request BYTEA, token BIGINT, done SMALLINT NOT NULL, result BYTEA, created BIGINT NOT NULL, UNIQUE (created, ` + key + `))`
}

func (postgres) now() string         { return "floor(extract(epoch FROM clock_timestamp()))::bigint" }
func (postgres) unlessThere() string { return " ON CONFLICT DO NOTHING" }

// A new statement of READ COMMITTED sees what the one before has waited for; in the other
// isolation levels the INSERT fails instead (40001).
func (postgres) latest() string { return "" }
