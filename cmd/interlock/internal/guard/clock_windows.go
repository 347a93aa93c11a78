package guard

import (
	"golang.org/x/sys/windows"

	"github.com/interlock-go/interlock/driver"
)

// now reads the clock that all processes of this machine share.
func now() driver.Instant { return driver.Instant(windows.DurationSinceBoot()) }
