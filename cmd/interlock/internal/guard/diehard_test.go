//go:build linux

package guard_test

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/internal/busy"
)

// hardToKill is a job of processes that all ignore SIGTERM and go on writing
// into the notebook: the command itself; a child that has left its session,
// group and inherited files; an orphan; and one that is replaced by a new
// process all the time.
func hardToKill(t *testing.T, n notebook) *run {
	t.Helper()
	return command(t, "/proc/self/exe", string(n)).with(asDie, "command")
}

// writing waits until all kinds of its processes were seen.
func (n notebook) writing(t *testing.T) {
	t.Helper()
	busy.Until(t, "a job of many processes", func() bool {
		writers, _ := n.read(t)
		return len(writers) >= 6
	})
}

// dieHard is what each process of such a job does. The role "at once" dies as
// every program does.
func dieHard() {
	n := notebook(os.Args[1])
	if os.Getenv(asDie) == "at once" {
		n.writeOn()
	}
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	spawn := func(role string) {
		c := exec.Command("/proc/self/exe", os.Args[1])
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, asDie+"=") {
				c.Env = append(c.Env, v)
			}
		}
		c.Env = append(c.Env, asDie+"="+role)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Start()
	}
	n.write()
	switch os.Getenv(asDie) {
	case "command":
		spawn("daemon")
		spawn("parent of an orphan")
		spawn("hopper")
	case "daemon":
		for fd := 3; fd < 256; fd++ {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
				unix.Close(fd)
			}
		}
	case "parent of an orphan":
		spawn("orphan")
		os.Exit(0)
	case "hopper":
		spawn("hopper")
		n.write()
		os.Exit(0)
	}
	n.writeOn()
}

func (n notebook) writeOn() {
	for {
		n.write()
		time.Sleep(5 * time.Millisecond)
	}
}
