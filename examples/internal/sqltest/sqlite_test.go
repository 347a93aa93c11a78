package sqltest

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/interlock-go/interlock/internal/errtest"
)

// newFile returns the name of a database that has run the statements.
func newFile(t *testing.T, journal string, statements ...string) string {
	file := "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "shop.db")) + "?_pragma=journal_mode(" + journal + ")"
	db := open(t, file)
	for _, s := range statements {
		must(t, db, s)
	}
	return file
}

// open opens the database as another process would, with connections of its own.
func open(t *testing.T, file string) *sql.DB {
	t.Helper()
	return openWith(t, "sqlite", file)
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func must(t *testing.T, e execer, query string, args ...any) {
	t.Helper()
	if _, err := e.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func number(t *testing.T, q queryer, query string, args ...any) (n int64) {
	t.Helper()
	if err := q.QueryRowContext(context.Background(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx := errtest.Must(db.Begin())(t)
	t.Cleanup(func() { _ = tx.Rollback() }) // sql.ErrTxDone after a commit
	return tx
}

func commit(t *testing.T, tx *sql.Tx) {
	t.Helper()
	noError(t, tx.Commit())
}
