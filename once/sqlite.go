package once

import "github.com/interlock-go/interlock/internal/rows"

type sqlite struct{ rows.Dialect }

func (sqlite) create(table, key string) string {
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (` + key + ` TEXT NOT NULL PRIMARY KEY,
		request BLOB, token INTEGER, done INTEGER NOT NULL, result BLOB, created INTEGER NOT NULL, UNIQUE (created, ` + key + `))`
}

func (sqlite) now() string         { return "CAST(strftime('%s', 'now') AS INTEGER)" }
func (sqlite) unlessThere() string { return " ON CONFLICT DO NOTHING" }

// The INSERT has taken the write lock, or failed because the transaction has read before.
func (sqlite) latest() string { return "" }
