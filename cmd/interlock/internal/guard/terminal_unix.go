//go:build linux || darwin

package guard

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// hasTerminal tells whether one of the standard streams is the controlling
// terminal. Its job then stays in the caller's process group, since a terminal
// can be read by its foreground group only; also through /dev/tty, as programs
// do that ask for a password while their input comes from a pipe.
func hasTerminal() bool {
	_, ok := terminalFd()
	return ok
}

func terminalFd() (int, bool) {
	for fd := range 3 {
		if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			return fd, true
		}
	}
	return 0, false
}

// foregroundGroup is the process group to which the terminal sends signals, or
// 0 if this process has no terminal.
func foregroundGroup() int {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return 0
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// setForegroundGroup hands the terminal on to another process group.
func setForegroundGroup(group int) error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer tty.Close()
	return unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCSPGRP, group)
}

// inForeground tells whether the terminal's signals go to this process.
func inForeground() bool { return foregroundGroup() == unix.Getpgrp() }

// terminal is the state of the terminal before the job had it.
type terminal struct {
	fd    int
	modes *unix.Termios // nil: nothing to restore
}

func saveTerminal() terminal {
	fd, ok := terminalFd()
	if !ok || !inForeground() {
		return terminal{}
	}
	modes, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return terminal{}
	}
	return terminal{fd, modes}
}

// restore undoes what a killed job had no time to undo: the modes of an editor,
// and the foreground group of a shell. A stopped job's terminal belongs to
// somebody else by now and is left alone.
func (t terminal) restore() {
	if t.modes == nil {
		return
	}
	if group := foregroundGroup(); group != unix.Getpgrp() {
		if group == 0 || unix.Kill(-group, 0) != unix.ESRCH {
			return
		}
		// The job's own shell was in front, and is gone.
		signal.Ignore(unix.SIGTTOU)
		if setForegroundGroup(unix.Getpgrp()) != nil {
			return
		}
	}
	unix.IoctlSetTermios(t.fd, setTermios, t.modes)
}
