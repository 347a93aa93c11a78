package etcdtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/interlock-go/interlock/internal/testserver"
)

// StickDisk has each write of the server's log wait at its disk from now on, until release is called:
// the process runs, its connections stay, and a leader goes on to answer what needs no write. It is
// done by strace.
func (s *Server) StickDisk() (release func()) {
	s.Helper()
	args := []string{"-f", "-qq", "-o", s.Path("strace"), "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=600s"}
	// Not the database: while that waits for its disk, the server answers nothing.
	logs, err := filepath.Glob(s.Path("data/member/wal/*.wal"))
	s.Check("find the log", err)
	for _, path := range logs {
		args = append(args, "-P", path)
	}
	p, err := testserver.Begin(exec.Command("strace", append(args, "-p", strconv.Itoa(s.Pid()))...))
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
