package sqlitelock

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// moment is a time of the file, in nanoseconds. All processes that share the
// file read the same clock; see fileClock.
type moment int64

func (m moment) add(d time.Duration) moment { return m + moment(d) }
func (m moment) sub(o moment) time.Duration { return time.Duration(m - o) }

// maxHold keeps the sum of a moment and a duration in range.
const maxHold = 100 * 365 * 24 * time.Hour

// instant converts a time of the file into the driver's.
func (d *Driver) instant(m moment) driver.Instant {
	return driver.Now().Add(m.sub(d.clock.now()))
}

// ticks is the wall clock in the unit of tokens.
func ticks() int64 { return time.Now().UnixNano() / int64(10*time.Microsecond) }
