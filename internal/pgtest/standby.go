package pgtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// StartStandby starts a hot standby of a server, which receives what is committed
// there later, and ends with the test. Promote makes it a primary.
func StartStandby(t testing.TB, of *Server) *Server {
	t.Helper()
	s, err := runStandby(t.TempDir(), of)
	if err != nil {
		t.Fatal(err)
	}
	s.BelongTo(t)
	return s
}

func runStandby(dir string, of *Server) (*Server, error) {
	s := &Server{set: of.set, bin: of.bin, user: of.user}
	if err := s.user.admit(dir); err != nil {
		return nil, err
	}
	s.set.lines = append(s.set.lines[:len(s.set.lines):len(s.set.lines)],
		fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=%s'", of.Dir, of.Port, Superuser))
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "postgres", Configure: s.configure, Command: s.command, Ready: s.serves,
		Terminate: interrupt, Quit: quit,
	})
	cmd := exec.Command(filepath.Join(s.bin, "pg_basebackup"), "--no-sync", "--checkpoint", "fast", "--write-recovery-conf",
		"--pgdata", s.data(), "--host", of.Dir, "--port", strconv.Itoa(of.Port), "--username", Superuser)
	cmd.Dir = dir
	s.user.use(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return s, s.Run()
}

// Promote makes a standby a primary, as a failover does.
func (s *Server) Promote() {
	s.Helper()
	if s.SQL("SELECT pg_promote(true, 120)") != "t" {
		s.Fail("it is not promoted")
	}
}
