//go:build unix

package sqlitelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// neighbours are what others in a process do with the files of a client in it. The kernel then drops
// all POSIX locks of the process on these files.
var neighbours = map[string]func(path string) error{
	"backup": func(path string) error {
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			if _, err := os.ReadFile(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		return nil
	},
	"library": secondLibrary,
}

// secondLibrary does what a SQLite does that is linked into a program beside another one, when it opens
// and closes a file: its locks are those of the process, so that the process's own do not stop it.
func secondLibrary(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	lock := func(f *os.File, typ int16, at, n int64) error {
		return syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: typ, Start: at, Len: n})
	}
	if shm, err := os.OpenFile(path+"-shm", os.O_RDWR, 0); err == nil {
		if lock(shm, syscall.F_WRLCK, 128, 1) == nil { // the dead man's switch: nobody else is there
			err = shm.Truncate(3)
		}
		if err := errors.Join(err, shm.Close()); err != nil {
			return err
		}
	}
	const shared = 0x40000000 + 2
	if lock(f, syscall.F_WRLCK, shared, 510) == nil { // the last one
		return errors.Join(os.Remove(path+"-shm"), os.Remove(path+"-wal"))
	}
	return nil
}

// No descriptor that another part of the program closes lets two hold a lock: SQLite's own locks are
// lost then, and the next process that ends takes itself for the last and removes the log.
func TestANeighbourInTheProcessLetsNoTwoHold(t *testing.T) {
	visits := 30
	if testing.Short() {
		visits = 8
	}
	for name := range neighbours {
		t.Run(name, func(t *testing.T) {
			path, log := file(t), filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(log, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				newPuppet(t, path).send("beside", "q", log, name)
			}
			for range visits {
				p := newPuppet(t, path)
				p.must("open", "open", time.Hour)
				switch got := p.do("join", "q"); got {
				case "held":
				case "waits":
					p.must("held", "await", "q")
				default:
					t.Fatal(got)
				}
				p.must("left", "leave", "q")
				p.must("closed", "close")
			}
			grants := checkLog(t, log)
			if grants < 100 {
				t.Errorf("only %d grants", grants)
			}
			t.Logf("%d visits, %d grants", visits, grants)
		})
	}
}
