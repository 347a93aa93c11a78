package driver

import "time"

// Instant is a reading of a steady local clock: no step of the wall clock
// moves it, and on Linux it runs on while the machine is suspended. Readings
// of one process can be compared; on Linux, those of all processes of one boot.
type Instant time.Duration

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }
