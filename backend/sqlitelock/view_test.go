package sqlitelock

import (
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
)

// ReadAround has a client read the whole file in a transaction that began before something happened. It
// returns what is wrong with what was read.
func ReadAround(t testing.TB, path string, happens func()) (wrong string) {
	t.Helper()
	s := start(t, path).store
	if err := s.view(t.Context(), func(c conn, _ time.Time) error {
		if err := c.exec("SELECT one FROM file"); err != nil {
			return err
		}
		happens()
		err := c.one("PRAGMA quick_check", func(r *sqlite.Stmt) { wrong = r.ColumnText(0) })
		return err
	}); err != nil {
		return err.Error()
	}
	return wrong
}
