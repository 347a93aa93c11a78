//go:build !linux

package driver

import "time"

var start = time.Now()

// Now reads the steady clock of this process.
func Now() Instant { return Instant(time.Since(start)) }
