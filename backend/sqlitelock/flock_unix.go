//go:build unix

package sqlitelock

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the exclusive lock on a file if it is free. The lock belongs to
// the open file: it ends when the last descriptor is closed, in whatever process.
func tryLock(f *os.File) (bool, error) {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// lock waits for the exclusive lock.
func lock(f *os.File) error { return flock(f, syscall.LOCK_EX) }

func unlock(f *os.File) { _ = flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if e := c.Control(func(fd uintptr) {
		for {
			if err = syscall.Flock(int(fd), how); err != syscall.EINTR {
				return
			}
		}
	}); e != nil {
		return e
	}
	return os.NewSyscallError("flock", err)
}
