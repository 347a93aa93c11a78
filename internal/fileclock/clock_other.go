//go:build !linux

package fileclock

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Clock is the wall clock, the only one that processes share here.
type Clock struct{ Boot string }

// Steady says that no step can set the clock back.
const Steady = false

// New cannot tell one boot from another.
func New() (Clock, error) { return Clock{}, nil }

// Now is the time, in nanoseconds.
func (Clock) Now() int64 { return time.Now().UnixNano() }

// At is Now: the reading of driver.Now is of another clock.
func (c Clock) At(driver.Instant) int64 { return c.Now() }

func (Clock) String() string { return "the wall clock" }
