//go:build unix

package flock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: no other user chooses what is locked and written, neither by a second name nor by a file in a directory that
// all share.
func TestAFileOfAnotherUserIsRefused(t *testing.T) {
	dir := t.TempDir()
	file, second := filepath.Join(dir, "file"), filepath.Join(dir, "second")
	f := errtest.Must(Open(t.Context(), file))(t)
	f.Close()
	errtest.None(t, os.Link(file, second))
	if _, err := Open(t.Context(), second); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("a hard link: %v", err)
	}
	errtest.None(t, os.Remove(second))
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	errtest.None(t, os.Chown(file, 65534, 65534))
	f, err := Open(t.Context(), file)
	if err != nil {
		t.Fatalf("a file of another user in a directory of one's own: %v", err)
	}
	f.Close()
	errtest.None(t, os.Chmod(dir, 0o777|os.ModeSticky))
	if _, err := Open(t.Context(), file); err == nil || !strings.Contains(err.Error(), "belongs to") {
		t.Errorf("a file of another user in a directory that all share: %v", err)
	}
}
