package guard

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// self is the running binary, also if its file was replaced or deleted.
func self() (string, error) { return "/proc/self/exe", nil }

func becomeSubreaper() error {
	return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// nameProcess makes this process show by its name in ps and top.
func nameProcess(name string) { os.WriteFile("/proc/self/comm", []byte(name), 0) }

// lend has the job inherit, of files with a shared lock, others that it opens anew, each with a shared lock
// of its own: the job, which may be another user's, could unlock the guard's. The guard has its own back
// when the job has begun.
func lend(files []uintptr) (back func()) {
	type lent struct{ at, own int }
	var all []lent
	for _, at := range files {
		fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil { // a socket, say
			continue
		}
		own := -1
		if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) == nil {
			own, err = unix.FcntlInt(at, unix.F_DUPFD_CLOEXEC, 3)
		}
		if err == nil && own >= 0 && unix.Dup2(fd, int(at)) == nil {
			all = append(all, lent{int(at), own})
		}
		unix.Close(fd)
	}
	return func() {
		for _, l := range all {
			unix.Dup2(l.own, l.at)
			unix.Close(l.own)
		}
	}
}

// jobAttr puts the job into a process group, and lets the kernel kill it when
// the thread that starts it ends.
func jobAttr(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: syscall.SIGKILL}
}

// ignored tells whether the caller had this process ignore a signal.
func ignored(s syscall.Signal) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && bits&(1<<(s-1)) != 0
		}
	}
	return false
}

// actOn does to this process what signal s does by default: stops it, in which
// case it returns when the process was continued, or ends it.
func actOn(s syscall.Signal) {
	// A signal to the calling thread takes effect before the call returns. Go's
	// handler, once installed, is never removed again: set the default action
	// around the call. The kernel's struct sigaction is of at most 32 bytes, its
	// zero is SIG_DFL.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, byDefault [8]uint64
	if s != unix.SIGSTOP {
		sigaction(s, &byDefault, &old)
		defer sigaction(s, &old, nil)
	}
	unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
}

func sigaction(s syscall.Signal, action, old *[8]uint64) {
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}

// orphaned tells whether nobody outside this process group could continue it,
// after it was stopped: none of its members has a parent that is in another
// group of the same session.
func orphaned() bool {
	group := unix.Getpgrp()
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	for pid := unix.Getppid(); ; {
		if s, err := unix.Getsid(pid); err != nil || s != session {
			return true
		}
		if g, err := unix.Getpgid(pid); err != nil || g != group {
			return err != nil
		}
		stat, err := readStat(pid)
		if err != nil {
			return true
		}
		pid = stat.parent
	}
}

// stat is what we want to know of a process.
type stat struct {
	state  byte
	parent int
	group  int
}

func readStat(pid int) (s stat, err error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, err
	}
	// The command's name, in parentheses, may contain anything.
	_, err = fmt.Sscanf(string(data[bytes.LastIndexByte(data, ')')+1:]), " %c %d %d", &s.state, &s.parent, &s.group)
	return s, err
}
