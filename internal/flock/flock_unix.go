//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package flock

import (
	"errors"
	"os"
	"syscall"
)

// Try takes the exclusive lock if it is free. The lock belongs to the open file:
// it ends when the last descriptor is closed, in whatever process.
func Try(f *os.File) (bool, error) { return try(f, syscall.LOCK_EX) }

// TryShared takes a lock that several open files can have, unless one has the exclusive lock. An
// open file that has that itself has the shared lock instead.
func TryShared(f *os.File) (bool, error) { return try(f, syscall.LOCK_SH) }

// Share turns an exclusive lock into a shared one. Where the kernel does not do that in one step, another may
// come first; then the lock is lost.
func Share(f *os.File) (bool, error) { return TryShared(f) }

func try(f *os.File, how int) (bool, error) {
	err := flock(f, how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Lock waits for the exclusive lock. Nothing but getting it ends the wait.
func Lock(f *os.File) error { return flock(f, syscall.LOCK_EX) }

// Unlock gives the lock back.
func Unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	if err := c.Control(func(fd uintptr) {
		for {
			if locked = syscall.Flock(int(fd), how); !errors.Is(locked, syscall.EINTR) {
				return
			}
		}
	}); err != nil {
		return err
	}
	return os.NewSyscallError("flock", locked)
}
