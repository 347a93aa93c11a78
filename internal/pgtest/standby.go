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

// StopReceiving has a standby receive nothing more from its primary, as if the network
// between them were cut. What it has received so far stays. Receive ends that.
func (s *Server) StopReceiving() {
	s.Helper()
	s.SQL("ALTER SYSTEM SET primary_conninfo = ''")
	s.SQL("SELECT pg_reload_conf()")
	s.receives("f")
}

// Receive has a standby go on after StopReceiving.
func (s *Server) Receive() {
	s.Helper()
	s.Check("configure", s.configure())
	s.SQL("SELECT pg_reload_conf()")
	s.receives("t")
}

func (s *Server) receives(yes string) {
	s.Helper()
	s.Check("receiver", testserver.Until(func() (bool, error) {
		got, err := s.Exec(Database, "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver)")
		return got == yes, err
	}))
}

// CatchUp waits until a standby has received and applied all that its primary has
// committed so far.
func (s *Server) CatchUp(primary *Server) {
	s.Helper()
	lsn := primary.SQL("SELECT pg_current_wal_flush_lsn()")
	s.Check("catch up", testserver.Until(func() (bool, error) {
		got, err := s.Exec(Database, "SELECT pg_last_wal_replay_lsn() >= '"+lsn+"'")
		return got == "t", err
	}))
}
