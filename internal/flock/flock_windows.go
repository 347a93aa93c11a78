package flock

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

const (
	failImmediately = 1
	exclusive       = 2
	lockViolation   = syscall.Errno(33) // ERROR_LOCK_VIOLATION
)

// try takes the lock if it is free. On Windows a locked byte cannot be read, so
// the lock is on one that lies far behind the end.
func try(f *os.File) (bool, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var locked error
	if err := c.Control(func(fd uintptr) {
		at := syscall.Overlapped{OffsetHigh: 1 << 30}
		if ok, _, errno := lockFileEx.Call(fd, failImmediately|exclusive, 0, 1, 0, uintptr(unsafe.Pointer(&at))); ok == 0 {
			locked = errno
		}
	}); err != nil {
		return false, err
	}
	if errors.Is(locked, lockViolation) {
		return false, nil
	}
	return locked == nil, os.NewSyscallError("LockFileEx", locked)
}
