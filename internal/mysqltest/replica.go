package mysqltest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Primary starts a server that replicas can follow. It waits for the disk with its binary
// log, so that it forgets nothing by itself.
func Primary(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return Start(t, append([]Option{Config("log_bin", "binlog"), Config("server_id", "1"), Config("sync_binlog", "1")}, opts...)...)
}

// Replica starts a server that follows a primary of MariaDB, asynchronously, and is read-only.
func Replica(t testing.TB, of *Server, opts ...Option) *Server {
	t.Helper()
	s := Start(t, append([]Option{Config("server_id", "2"), Config("read_only", "ON")}, opts...)...)
	of.Do("CREATE USER IF NOT EXISTS replica@'%' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO replica@'%'")
	s.Do(fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='replica', MASTER_PASSWORD='secret', MASTER_CONNECT_RETRY=1; START SLAVE", of.Port))
	return s
}

// CatchUp waits until a replica has what its primary has by now.
func (s *Server) CatchUp(with *Server) {
	s.Helper()
	at := strings.Fields(with.Do("SHOW MASTER STATUS"))
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		got := s.Do(fmt.Sprintf("SELECT MASTER_POS_WAIT('%s', %s, 1)", at[0], at[1]))
		if got != "-1" && got != "NULL" {
			return
		}
		if time.Since(began) > time.Minute {
			s.Check("to catch up", fmt.Errorf("the replica is behind: %s", s.Do("SHOW SLAVE STATUS")))
		}
	}
}

// Detach has a replica receive nothing more.
func (s *Server) Detach() {
	s.Helper()
	s.Do("STOP SLAVE")
}

// Promote makes a replica a server of its own.
func (s *Server) Promote() {
	s.Helper()
	s.Do("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF")
}
