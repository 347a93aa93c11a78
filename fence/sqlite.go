package fence

import "github.com/interlock-go/interlock/internal/ident"

// SQLite is the dialect of SQLite. A check is a write: it takes the write lock
// of the database file, so nobody else writes before the transaction ends. In a
// transaction that has read before, SQLite refuses it with SQLITE_BUSY if
// somebody else has written since, and the transaction has to begin again:
// check first, or begin with BEGIN IMMEDIATE.
var SQLite Dialect = sqlite{ident.SQLite}

type sqlite struct{ ident.Syntax }

func (sqlite) create(table string) string {
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (resource TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID`
}

func (sqlite) raise(table string) string {
	return `INSERT INTO ` + table + ` AS seen (resource, token) VALUES (?, ?)
		ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE seen.token <= ?`
}

func (sqlite) latest() string { return "" }
func (sqlite) counts() bool   { return true }
