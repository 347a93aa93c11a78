package etcdtest

import (
	"fmt"
	"os/exec"
	"strconv"

	"github.com/interlock-go/interlock/internal/testserver"
)

// StickDisk has each write of the server's log wait at its disk from now on, until release is called:
// the process runs, its connections stay, and a leader goes on to answer what needs no write. It is
// done by strace.
func (s *Server) StickDisk() (release func()) {
	s.Helper()
	cmd := exec.Command("strace", "-f", "-qq", "-o", s.Path("strace"), "-e", "trace=fdatasync,fsync",
		"-e", "inject=fdatasync,fsync:delay_enter=600s", "-p", strconv.Itoa(s.Pid()))
	p, err := testserver.Begin(cmd)
	s.Check("strace (on Debian: apt-get install strace)", err)
	// It is attached as soon as the kernel says so of each thread.
	s.Check("attach strace", testserver.Until(func() (bool, error) {
		if p.Ended() {
			return false, fmt.Errorf("strace has ended: it may need a right (CAP_SYS_PTRACE)")
		}
		return s.traced()
	}))
	return p.Terminate
}
