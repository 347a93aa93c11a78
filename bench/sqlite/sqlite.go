// Package sqlite contributes what competes on SQLite.
package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite"

	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/row"
	"github.com/interlock-go/interlock/bench/workload"
)

// Backend is a file that is made here.
func Backend() workload.Backend {
	return workload.Backend{Name: "sqlite", Start: start, Contenders: func(url string) []workload.Contender {
		return append([]workload.Contender{
			row.Contender(rows, func() (*sql.DB, error) {
				return sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite:")+"-rows?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
			}),
		}, ours.All(url)...)
	}}
}

// rows are in a file of their own, with the settings of ours.
var rows = row.Statements{
	Make: "CREATE TABLE IF NOT EXISTS lock_row (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID",
	Take: "INSERT INTO lock_row VALUES (?1, ?2, unixepoch('subsec') + ?3 / 1e6) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until " +
		"WHERE until < unixepoch('subsec')",
	Drop: "DELETE FROM lock_row WHERE name = ?1 AND owner = ?2",
}

func start(context.Context) (workload.Server, error) {
	dir, err := os.MkdirTemp("", "bench-sqlite-")
	path := filepath.ToSlash(filepath.Join(dir, "locks.db"))
	return workload.Server{
		URL: "sqlite:" + path, About: "a file in " + dir,
		Close: func() { _ = os.RemoveAll(dir) },
		// The log of the last transactions beside it does not grow with what is kept.
		Kept: func(ctx context.Context) (float64, error) { return workload.OnDisk(ctx, path) },
	}, err
}
