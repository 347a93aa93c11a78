//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package flock

import (
	"errors"
	"os"
	"syscall"
)

// try takes the lock if it is free.
func try(f *os.File) (bool, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var locked error
	if err := c.Control(func(fd uintptr) {
		for {
			if locked = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(locked, syscall.EINTR) {
				return
			}
		}
	}); err != nil {
		return false, err
	}
	if errors.Is(locked, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return locked == nil, os.NewSyscallError("flock", locked)
}
