package driver

import (
	"syscall"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of clock_gettime(2): CLOCK_MONOTONIC plus
// the time that the machine was suspended, during which servers go on counting
// down a lease.
const clockBoottime = 7

// Now reads the steady clock of this machine.
func Now() Instant {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("interlock: clock_gettime(CLOCK_BOOTTIME): " + errno.Error())
	}
	return Instant(ts.Nano())
}
