//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package filelock

// watch sees nothing here: waiters look again and again.
type watch struct{}

func (*watch) start(string, func(queue, id string)) error { return nil }
func (*watch) stop()                                      {}
func (*watch) add(_, _, _ string) bool                    { return false }
func (*watch) sees() bool                                 { return false }
