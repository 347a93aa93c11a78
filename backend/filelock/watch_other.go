//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package filelock

import "os"

// watch sees nothing here: waiters look again and again.
type watch struct{}

func (*watch) start(place, func(queue, id string)) error { return nil }
func (*watch) stop()                                     {}
func (*watch) add(_ *os.File, _, _ string) bool          { return false }
func (*watch) sees() bool                                { return false }
