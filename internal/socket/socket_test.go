//go:build unix

package socket

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a socket is trusted only where nobody else could have made it first.
func TestASocketThatEverybodyCanMakeIsNotTrusted(t *testing.T) {
	base := t.TempDir()
	folder := func(name string, mode os.FileMode) string {
		path := filepath.Join(base, name)
		errtest.None(t, os.MkdirAll(path, 0o700))
		errtest.None(t, os.Chmod(path, mode))
		return path
	}
	own, open, sticky := folder("own", 0o755), folder("open", 0o777), folder("sticky", 0o777|os.ModeSticky)
	group, below, inOpen := folder("group", 0o775), folder("sticky/below", 0o755), folder("open/below", 0o755)
	link := filepath.Join(own, "link")
	errtest.None(t, os.Symlink(open, link))
	all := map[string]bool{own: true, group: true, below: true, open: false, sticky: false, inOpen: false, link: false, filepath.Join(base, "none"): false}
	if os.Geteuid() == 0 {
		foreign := folder("sticky/foreign", 0o755)
		errtest.None(t, os.Chown(foreign, 12345, 12345))
		all[foreign] = false
	}
	for dir, want := range all {
		if path := filepath.Join(dir, "s"); Guarded(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
	for _, path := range []string{"", "@abstract"} {
		if Guarded(path) {
			t.Errorf("%q is trusted", path)
		}
	}
}
