package guard

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

func self() (string, error) { return os.Executable() }

// becomeSubreaper does nothing: there are no subreapers.
func becomeSubreaper() error { return nil }

func nameProcess(string) {}

// lend lends nothing: a file cannot be opened anew by its descriptor here, and the job gets those of the guard.
func lend([]uintptr) (back func()) { return func() {} }

// A guard has no warden, who would inherit no orphans.
const outermostName = guardName

func ward(int, int, []string) int { return 1 }

func attend(int) {}

func dismiss(int) {}

// relieve ends and reaps a guard that has nothing left to do.
func relieve(guard, _ int) {
	unix.Kill(guard, unix.SIGKILL)
	wait(guard)
}

func jobAttr(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

// ignored tells whether the caller had this process ignore a signal, as far as
// the runtime remembers it.
func ignored(s syscall.Signal) bool { return signal.Ignored(s) }

// actOn does to this process what signal s does by default: stops it, in which
// case it returns when the process was continued, or ends it. SIGSTOP stands
// for every stop signal: the default action of the others cannot be had back
// once they were caught.
func actOn(s syscall.Signal) {
	switch s {
	case unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
		s = unix.SIGSTOP
	default:
		signal.Reset(s)
	}
	unix.Kill(unix.Getpid(), s)
}

// orphaned tells whether nobody outside this process group could continue it.
func orphaned() bool {
	parent := unix.Getppid()
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	s, err := unix.Getsid(parent)
	return err != nil || s != session
}
