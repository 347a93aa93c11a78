package pgtest

import (
	"bytes"
	"os"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Kill ends the server with all its processes by SIGKILL. Nothing that was not
// written to files is left. It can be started again with Restart.
func (s *Server) Kill() {
	s.Helper()
	// A server that is stopped starts no more processes. The signal takes a moment.
	if s.Alive() {
		s.Pause()
		s.Check("pause", testserver.Until(func() (bool, error) { return stopped(s.Pid()) || !s.Alive(), nil }))
	}
	all := children(s.Pid())
	for _, pid := range all {
		kill(pid)
	}
	s.Server.Kill()
	s.Check("kill", testserver.Until(func() (bool, error) {
		for _, pid := range all {
			if runs(pid) {
				return false, nil
			}
		}
		return true, nil
	}))
}

// KillBackends ends the processes that serve connections for which the condition
// holds, a condition on pg_stat_activity, by SIGKILL: the server then ends all
// other connections too, and recovers. It returns how many these were, once the
// server serves again; 0 if all had just ended by themselves.
func (s *Server) KillBackends(where string) int {
	s.Helper()
	all := s.Backends(where)
	before := s.crashes()
	for _, pid := range all {
		kill(pid)
	}
	s.Check("recover", testserver.Until(func() (bool, error) {
		for _, pid := range all {
			if !reaped(pid) { // the server does not know yet
				return false, nil
			}
		}
		_, err := s.Exec(Database, "SELECT 1")
		return err == nil, nil
	}))
	if s.crashes() == before {
		return 0
	}
	return len(all)
}

// crashes is how often the server has seen a process of its own killed.
func (s *Server) crashes() int {
	log, err := os.ReadFile(s.Path("log"))
	s.Check("read the log", err)
	return bytes.Count(log, []byte("was terminated by signal 9"))
}
