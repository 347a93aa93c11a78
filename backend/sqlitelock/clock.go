package sqlitelock

import "time"

// moment is a time of the file, in nanoseconds. All processes that share the
// file read the same clock; see fileclock.Clock.
type moment int64

func (m moment) add(d time.Duration) moment { return m + moment(d) }
func (m moment) sub(o moment) time.Duration { return time.Duration(m - o) }

// now is the time of the file.
func (s *store) now() moment { return moment(s.clock.Now()) }

// ticks is the wall clock in the unit of tokens.
func ticks() int64 { return time.Now().UnixNano() / int64(10*time.Microsecond) }
