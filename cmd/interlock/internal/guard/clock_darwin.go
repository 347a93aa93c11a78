package guard

import (
	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/driver"
)

// now reads the clock that all processes of this machine share.
func now() driver.Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("guard: clock_gettime: " + err.Error())
	}
	return driver.Instant(t.Nano())
}
