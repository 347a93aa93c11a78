//go:build unix

package main

import (
	"os/signal"
	"syscall"
	"time"
)

// interruptSelf ends this process by the signal that ended its job, so that a
// shell sees an interrupted command and ends its loop, as without interlock.
func interruptSelf() {
	signal.Reset(syscall.SIGINT)
	if syscall.Kill(syscall.Getpid(), syscall.SIGINT) == nil {
		time.Sleep(time.Second) // the signal ends us, unless it is ignored
	}
}
