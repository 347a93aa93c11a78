//go:build unix

package sqlitelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

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

// A second SQLite in the process of a client lets no two hold a lock, whatever that one takes for free. A
// neighbour that only reads the files is the rule NeighbourInTheProcess.
func TestAnotherSQLiteInTheProcessLetsNoTwoHold(t *testing.T) {
	visits := 30
	if testing.Short() {
		visits = 8
	}
	path, log := file(t), filepath.Join(t.TempDir(), "log")
	noError(t, os.WriteFile(log, nil, 0o600))
	ended := make(chan string, 3)
	for range cap(ended) {
		p := newPuppet(t, path)
		p.send("beside", "q", log)
		go func() {
			said, _ := p.out.ReadString('\n')
			ended <- said
		}()
	}
	for range visits {
		p := newPuppet(t, path)
		p.must("open", "open", time.Hour)
		if p.do("join", "q") != "held" {
			p.must("held", "await", "q")
		}
		p.must("left", "leave", "q")
		p.must("closed", "close")
	}
	select {
	case said := <-ended:
		t.Errorf("a process in which another library works has ended: %s", said)
	default:
	}
	t.Logf("%d visits, %d grants", visits, checkLog(t, log))
}

// What a transaction reads stays as it was, also when a neighbour has dropped SQLite's locks: another
// process would overwrite it.
func TestANeighbourChangesNothingThatIsBeingRead(t *testing.T) {
	path, log := file(t), filepath.Join(t.TempDir(), "log")
	noError(t, os.WriteFile(log, nil, 0o600))
	s := session(t, open(t, path), time.Hour)
	for range 500 {
		join(t, s, mutex(newID()), true)
	}
	if wrong := sqlitelock.ReadAround(t, path, func() {
		errtest.Must(os.ReadFile(path + "-shm"))(t)
		p := newPuppet(t, path)
		p.send("cycle", "q", log)
		const enough = 100_000 // bytes: the log of the database begins anew several times
		for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
			if st, err := os.Stat(log); err != nil || st.Size() > enough {
				break
			} else if time.Now().After(end) {
				t.Fatalf("only %d bytes of grants", st.Size())
			}
		}
		p.kill()
	}); wrong != "ok" {
		t.Errorf("read after a neighbour has closed a file: %s", wrong)
	}
}

// Whatever part of the file is removed: nobody is let in who would not see the others.
func TestAFileOfWhichAPartIsRemoved(t *testing.T) {
	for _, part := range []string{"", "-wal", "-shm"} {
		t.Run("locks.db"+part, func(t *testing.T) {
			path := file(t)
			s := session(t, open(t, path), time.Hour)
			held := join(t, s, mutex("q"), true)
			noError(t, os.Remove(path+part))
			_, err := s.Join(t.Context(), mutex("r"))
			if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "removed or replaced") {
				t.Errorf("Join: %v", err)
			}
			if _, err := s.Renew(t.Context(), []driver.Ticket{held}); !driver.IsPermanent(err) {
				t.Errorf("Renew: %v", err)
			}
		})
	}
}
