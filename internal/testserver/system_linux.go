package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Reserve returns a port of the loopback interface that is given to no other process until
// release is called: a socket is bound to it, but does not listen. A server
// that says SO_REUSEADDR can listen there, and so can its successors; no process is
// given the port by chance in between.
func Reserve() (port int, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	release = sync.OnceFunc(func() { _ = syscall.Close(fd) }) // later the number is another file's
	err = errors.Join(
		os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)),
		os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})))
	name, err2 := syscall.Getsockname(fd)
	if err = errors.Join(err, err2); err != nil {
		release()
		return 0, nil, err
	}
	return name.(*syscall.SockaddrInet4).Port, release, nil
}

// bindToParent ends the child with the thread that starts it.
func bindToParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// pause waits until every thread of the process stands still. The signal
// itself stops them one by one, as each is given a processor.
func pause(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return stopped(p.Pid)
}

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

func stopped(pid int) error {
	for range 10_000 {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if len(threads) == 0 {
			return os.ErrProcessDone
		}
		still := true
		for _, path := range threads {
			s := state(path)
			still = still && (s == 'T' || s == gone)
		}
		if still {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("it does not stand still")
}

// gone is the state of a thread that has ended.
const gone = 'X'

// state is the letter that the kernel gives to a process or thread, in its file stat.
func state(path string) byte {
	stat, err := os.ReadFile(path)
	end := bytes.LastIndex(stat, []byte(") ")) // the name before it can have any character
	if err != nil || end < 0 {
		return gone
	}
	return stat[end+2]
}

// Runs reports whether a process is more than an entry that its parent has not read yet.
func Runs(pid int) bool {
	s := state(fmt.Sprintf("/proc/%d/stat", pid))
	return s != 'Z' && s != gone
}
