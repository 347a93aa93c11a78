//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package filelock

import "os"

// watch sees nothing here: waiters look again and again.
type watch struct{}

func (*watch) start(place, func(queue, session string)) error { return nil }
func (*watch) stop()                                          {}
func (*watch) add(*os.File, string) bool                      { return false }
func (*watch) sees() bool                                     { return false }
