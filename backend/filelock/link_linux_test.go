package filelock

import (
	"os"
	"path/filepath"
	"testing"
)

// Promise: the mode of a new folder is given to nothing else, which another user has put in its place.
func TestNoModeIsGivenThroughALink(t *testing.T) {
	t.Parallel()
	own, place := t.TempDir(), t.TempDir()
	if err := os.Chmod(own, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(place, "mail")
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	shared := dir{path: place, mode: 0o666}
	if err := shared.setMode(link, 0); err == nil {
		t.Error("a folder that is a link got a mode")
	}
	if err := chmodSocket(link, shared.mode); err == nil {
		t.Error("a socket that is a link got a mode")
	}
	file := filepath.Join(own, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := chmodSocket(file, shared.mode); err == nil {
		t.Error("a file got the mode of a socket")
	}
	if st, err := os.Stat(own); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("what the link leads to: %v, %v", st.Mode(), err)
	}
}
