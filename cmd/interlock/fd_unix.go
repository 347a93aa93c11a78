//go:build unix

package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }

// inFront reports whether this process may write to a terminal without disturbing what is in
// front there: it is not in the background of that.
func inFront(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}
