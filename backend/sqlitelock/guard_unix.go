//go:build linux || darwin

package sqlitelock

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"zombiezen.com/go/sqlite"
)

// guard keeps every SQLite from taking itself for the only user of a file that a client has open: the
// last user removes the log, and the first empties the shared memory.
//
// SQLite's own locks do not suffice. They are the process's: the kernel drops all of them when any
// descriptor of the file is closed in the process, by a backup or another SQLite library, and such a
// library does not see them. So the guard has those that show a user a second time, as locks of open
// file descriptions of its own (OFD).
type guard struct{ db, shm, log *os.File }

// The bytes on which users of SQLite have a shared lock (its os_unix.c and wal.c).
var (
	users    = syscall.Flock_t{Start: 0x40000000 + 2, Len: 510} // of the database
	mappings = syscall.Flock_t{Start: 128, Len: 1}              // of the shared memory
	oldest   = syscall.Flock_t{Start: 123, Len: 1}              // of the shared memory: nothing is moved out of the log
)

// enter is called before the file is opened by SQLite, with the write lock. The caller repeats it
// while another SQLite just closes the file.
func (g *guard) enter(path string) (err error) {
	if g.db == nil {
		if g.db, err = openGuard(path); err != nil {
			return err
		}
	}
	return lockOFD(g.db, syscall.F_RDLCK, users)
}

// complete is called when SQLite has opened the file. Without a log every commit needs the lock of all
// users for itself, so there is no guard.
func (g *guard) complete(path string) (err error) {
	if g.shm, err = openGuard(path + "-shm"); errors.Is(err, fs.ErrNotExist) {
		g.leave()
		*g = guard{}
		return nil
	}
	if err == nil {
		g.log, err = openGuard(path + "-wal")
	}
	if err == nil {
		err = lockOFD(g.shm, syscall.F_RDLCK, mappings)
	}
	return err
}

// reading keeps what a transaction reads from being moved. If it is just being moved, SQLite's own
// lock has to do.
func (g *guard) reading() (end func()) {
	if g.shm == nil || lockOFD(g.shm, syscall.F_RDLCK, oldest) != nil {
		return func() {}
	}
	return func() { _ = lockOFD(g.shm, syscall.F_UNLCK, oldest) }
}

// whole reports whether all files still have a name. It is called in a transaction, as the guard ends
// after the last one.
func (g *guard) whole() bool { return g.shm == nil || hasName(g.shm) && hasName(g.log) }

func hasName(f *os.File) bool {
	var st syscall.Stat_t
	return syscall.Fstat(int(f.Fd()), &st) != nil || st.Nlink > 0
}

// state is when an entry of the folders, or their mode, was last changed; 0: that cannot be told.
func (n *names) state() (at [2]int64) {
	for i, dir := range n.at {
		var st syscall.Stat_t
		if syscall.Fstat(int(dir.Fd()), &st) != nil {
			return [2]int64{}
		}
		at[i] = changed(&st)
	}
	return at
}

// leave is called before SQLite closes the file if it may be the last user.
func (g *guard) leave() {
	for _, f := range []*os.File{g.db, g.shm, g.log} {
		_ = f.Close()
	}
}

func openGuard(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// lockOFD does nothing where there are no such locks.
func lockOFD(f *os.File, how int16, at syscall.Flock_t) error {
	at.Type = how
	switch err := syscall.FcntlFlock(f.Fd(), setOFD, &at); err {
	case syscall.EAGAIN, syscall.EACCES:
		return sqlite.ResultBusy.ToError()
	case syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOSYS:
		return nil
	default:
		return err
	}
}
