//go:build !linux

package sqlitelock

import "time"

// fileClock is the wall clock, the only one that processes share here.
type fileClock struct{ boot string }

// steady says that no step can set the clock back.
const steady = false

func newFileClock() (fileClock, error) { return fileClock{}, nil }

func (fileClock) now() moment { return moment(time.Now().UnixNano()) }

func (fileClock) String() string { return "the wall clock" }
