//go:build unix

package flock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Promise: no other user chooses what is locked and written, neither by a second name nor by a file in a directory that all share.
func TestAFileOfAnotherUserIsRefused(t *testing.T) {
	dir := t.TempDir()
	file, second := filepath.Join(dir, "file"), filepath.Join(dir, "second")
	f, err := Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.Link(file, second); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), second); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("a hard link: %v", err)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	if err := os.Chown(file, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	f, err = Open(t.Context(), file)
	if err != nil {
		t.Fatalf("a file of another user in a directory of one's own: %v", err)
	}
	f.Close()
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), file); err == nil || !strings.Contains(err.Error(), "belongs to") {
		t.Errorf("a file of another user in a directory that all share: %v", err)
	}
}
