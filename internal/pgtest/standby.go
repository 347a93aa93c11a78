package pgtest

import (
	"errors"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// StartStandby starts a hot standby of a server, which receives what is committed
// there later, and ends with the test. Promote makes it a primary.
func StartStandby(t testing.TB, of *Server) *Server {
	t.Helper()
	s := newServer(t.TempDir(), nil)
	s.set, s.of = of.set, of
	s.set.setup = nil
	testserver.Start(t, s)
	return s
}

// Promote makes a standby a primary, as a failover does.
func (s *Server) Promote() {
	s.Helper()
	if s.SQL("SELECT pg_promote(true, 120)") != "t" {
		s.Check("promote", errors.New("it takes too long"))
	}
}

// StopReceiving has a standby receive nothing more from its primary, as if the network
// between them were cut. What it has received so far stays. Receive ends that.
func (s *Server) StopReceiving() {
	s.Helper()
	s.SQL("ALTER SYSTEM SET primary_conninfo = ''")
	s.receives("f")
}

// Receive has a standby go on after StopReceiving.
func (s *Server) Receive() {
	s.Helper()
	s.Check("configure", s.configure())
	s.receives("t")
}

// receives has the server read its configuration.
func (s *Server) receives(yes string) {
	s.Helper()
	s.SQL("SELECT pg_reload_conf()")
	s.until("receiver", "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver)", yes)
}

// CatchUp waits until a standby has received and applied all that its primary has
// committed so far.
func (s *Server) CatchUp(primary *Server) {
	s.Helper()
	lsn := primary.SQL("SELECT pg_current_wal_flush_lsn()")
	s.until("catch up", "SELECT pg_last_wal_replay_lsn() >= '"+lsn+"'", "t")
}

func (s *Server) until(what, sql, want string) {
	s.Helper()
	s.Check(what, testserver.Until(func() (bool, error) {
		got, err := s.Exec(Database, sql)
		return got == want, err
	}))
}
