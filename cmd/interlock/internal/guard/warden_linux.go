package guard

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A guard has a warden, a third process of the same binary:
//
//	program ─▶ warden ─▶ guard ─▶ job ─▶ …
//
// It is a subreaper too, so that it inherits the job if the guard is killed, and kills it
// then, whatever has become of the program. If the guard is stopped, it continues it. It
// knows nothing of deadlines.

// outermostName is the argv[0] of the process that the program starts.
const outermostName = wardenName

// ward is the warden's work. The descriptors from base up to end are those of [spawn].
func ward(base, end int, args []string) int {
	holdSignals()
	nameProcess(wardenName)
	if err := becomeSubreaper(); err != nil {
		return 1
	}
	fds := make([]uintptr, end)
	for fd := range fds {
		fds[fd] = uintptr(fd)
		if !inherited(fd) {
			fds[fd] = closed
		}
	}
	guard, err := spawn(guardName, base, fds, args)
	if err != nil {
		return 1
	}
	letGo(fds[base+2:])

	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(guard, &ws, unix.WUNTRACED, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || !ws.Stopped() {
			break
		}
		unix.Kill(guard, unix.SIGCONT)
	}
	newFamily(unknown, false).exterminate(0)
	if ws.Signaled() {
		unix.Kill(os.Getpid(), unix.SIGKILL) // the program learns how the guard ended
	}
	return ws.ExitStatus()
}

// attend continues a child, the warden, or the guard that it has left, whenever it is
// stopped, until it has ended.
func attend(child int) {
	if unix.Waitid(unix.P_PID, child, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil {
		// That it is stopped may have been told to its parent before, which has died then.
		unix.Kill(child, unix.SIGCONT)
	}
	for {
		// This does not reap it: its pid stays its own.
		err := unix.Waitid(unix.P_PID, child, nil, unix.WSTOPPED, nil)
		switch err {
		case nil:
			unix.Kill(child, unix.SIGCONT)
		case unix.EINTR:
		default:
			return
		}
	}
}

// dismiss is how a guard, which is about to end, has its warden end too, if somebody has
// stopped that.
func dismiss(warden int) {
	if os.Getppid() == warden {
		unix.Kill(warden, unix.SIGCONT)
	}
}

// relieve reaps the warden of a guard that has nothing left to do, and the guard itself if
// the warden was killed.
func relieve(warden, guard int) {
	wait(warden)
	if pid, err := unix.Wait4(guard, nil, unix.WNOHANG, nil); err == nil && pid == 0 {
		unix.Kill(guard, unix.SIGKILL)
		wait(guard)
	}
}
