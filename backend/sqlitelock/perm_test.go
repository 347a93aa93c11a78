//go:build unix

package sqlitelock_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// The permissions are those that were asked for, whatever the umask, for all
// files that are made.
func TestPermissions(t *testing.T) {
	for _, c := range []struct {
		url                     string
		database, locks, folder fs.FileMode
	}{
		{"", 0o600, 0o600, 0o700},
		{"?mode=0660", 0o660, 0o660, 0o770},
		{"?mode=640", 0o640, 0o600, 0o700}, // whoever can open a lock file can lock it
	} {
		t.Run(c.url, func(t *testing.T) {
			defer syscall.Umask(syscall.Umask(0o077))
			path := file(t)
			u := errtest.Must(driver.ParseURL("sqlite://" + path + c.url))(t)
			d, err := driver.OpenURL(t.Context(), u)
			noError(t, err)
			defer d.Close()
			join(t, session(t, d, time.Hour), mutex("q"), true)
			seen := 0
			err = filepath.Walk(filepath.Dir(path), func(p string, info fs.FileInfo, err error) error {
				want := c.database
				switch {
				case err != nil || p == filepath.Dir(path):
					return err
				case info.IsDir():
					want = c.folder
				case filepath.Dir(p) == path+"-interlock":
					want = c.locks
				}
				seen++
				if got := info.Mode().Perm(); got != want {
					t.Errorf("%s has mode %04o, not %04o", filepath.Base(p), got, want)
				}
				return nil
			})
			if err != nil || seen < 8 { // three of the database, the folder, four in it
				t.Errorf("%d files, %v", seen, err)
			}
		})
	}
}

// The sockets and lock files follow an existing database, not the option.
func TestPermissionsOfAnExistingFile(t *testing.T) {
	path := file(t)
	open(t, path)
	u := errtest.Must(driver.ParseURL("sqlite://" + path + "?mode=0666"))(t)
	d := errtest.Must(driver.OpenURL(t.Context(), u))(t)
	defer d.Close()
	for _, pattern := range []string{path, path + "-interlock/*"} {
		all, _ := filepath.Glob(pattern)
		for _, p := range all {
			if st, err := os.Stat(p); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", p, st.Mode(), err)
			}
		}
	}
}

// A folder that gives its group to what is made in it does so for all files.
func TestTheGroupIsInherited(t *testing.T) {
	path := file(t)
	dir := filepath.Dir(path)
	noError(t, os.Chmod(dir, 0o770|fs.ModeSetgid))
	open(t, path)
	st, err := os.Stat(path + "-interlock")
	if err != nil || st.Mode()&fs.ModeSetgid == 0 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// What one user may not write, an error says to that user.
func TestWithoutTheRightToWrite(t *testing.T) {
	for name, deny := range map[string]func(path string) error{
		"the file": func(path string) error { return os.Chmod(path, 0o444) },
		"the folder": func(path string) error {
			if err := os.RemoveAll(path + "-interlock"); err != nil {
				return err
			}
			return os.Chmod(filepath.Dir(path), 0o555)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t)
			for _, dir := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
				noError(t, os.Chmod(dir, 0o755))
			}
			d := open(t, path)
			noError(t, d.Close())
			noError(t, deny(path))
			defer os.Chmod(filepath.Dir(path), 0o755)
			t.Setenv(asNobody, "1")
			if got := newPuppet(t, path).answer(); !strings.Contains(got, path) || !strings.Contains(got, "permission denied") {
				t.Errorf("the error is %q", got)
			}
		})
	}
}
