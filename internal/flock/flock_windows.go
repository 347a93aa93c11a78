package flock

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var (
	kernel32   = syscall.NewLazyDLL("kernel32.dll")
	lockFile   = kernel32.NewProc("LockFileEx")
	unlockFile = kernel32.NewProc("UnlockFileEx")
)

const (
	failImmediately = 1
	exclusive       = 2
	lockViolation   = syscall.Errno(33) // ERROR_LOCK_VIOLATION
)

// Try takes the exclusive lock if it is free. The lock ends with its process.
func Try(f *os.File) (bool, error) {
	err := call(f, func(fd uintptr, at *syscall.Overlapped) (uintptr, uintptr, error) {
		return lockFile.Call(fd, failImmediately|exclusive, 0, 1, 0, uintptr(unsafe.Pointer(at)))
	})
	if errors.Is(err, lockViolation) {
		return false, nil
	}
	return err == nil, err
}

// Share keeps the exclusive lock, which no child inherits.
func Share(*os.File) (bool, error) { return true, nil }

// Lock waits for the exclusive lock. Nothing but getting it ends the wait.
func Lock(f *os.File) error {
	return call(f, func(fd uintptr, at *syscall.Overlapped) (uintptr, uintptr, error) {
		return lockFile.Call(fd, exclusive, 0, 1, 0, uintptr(unsafe.Pointer(at)))
	})
}

// Unlock gives the lock back.
func Unlock(f *os.File) error {
	return call(f, func(fd uintptr, at *syscall.Overlapped) (uintptr, uintptr, error) {
		return unlockFile.Call(fd, 0, 1, 0, uintptr(unsafe.Pointer(at)))
	})
}

// call locks one byte. A locked byte cannot be read, so it is one that lies far
// behind the end.
func call(f *os.File, lock func(uintptr, *syscall.Overlapped) (uintptr, uintptr, error)) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	if err := c.Control(func(fd uintptr) {
		at := syscall.Overlapped{OffsetHigh: 1 << 30}
		if ok, _, errno := lock(fd, &at); ok == 0 {
			locked = errno
		}
	}); err != nil {
		return err
	}
	return os.NewSyscallError("LockFileEx", locked)
}
