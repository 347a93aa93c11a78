package sqlitelock_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/trust/trusttest"
)

// A second mount of a folder is refused: its locks are others.
func TestASecondMountIsRefused(t *testing.T) {
	path := file(t)
	open(t, path)
	dir := filepath.Dir(path)
	d, err := sqlitelock.New(t.Context(), filepath.Join(trusttest.SecondMount(t, dir), "locks.db"))
	if err == nil {
		d.Close()
	}
	if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "FUSE, which shows "+dir) {
		t.Errorf("%v", err)
	}
}
