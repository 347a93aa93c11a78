package sqlitelock_test

import (
	"os"
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

// A file that is mounted without its folder is refused: its log and its messages are elsewhere.
func TestAFileThatIsMountedAloneIsRefused(t *testing.T) {
	path, on := file(t), filepath.Join(t.TempDir(), `a \ b.db`)
	open(t, path)
	noError(t, os.WriteFile(on, nil, 0o600))
	trusttest.FileMount(t, path, on)
	d, err := sqlitelock.New(t.Context(), on)
	if err == nil {
		d.Close()
	}
	if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), on+" is mounted by itself") {
		t.Errorf("%v", err)
	}
	if all, _ := os.ReadDir(filepath.Dir(on)); len(all) != 1 {
		t.Errorf("something was made beside it: %v", all)
	}
}
