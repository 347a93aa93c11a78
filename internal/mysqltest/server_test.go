package mysqltest_test

import (
	"net"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
)

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

// Promise: a server is configured as the test says, has the database and the user, and what was
// committed after it was killed.
func TestServer(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.TLS(), mysqltest.Lazy(),
		mysqltest.Config("connect_timeout", "600"), mysqltest.Config("sql_mode", "ANSI", "NO_UNSIGNED_SUBTRACTION"))
	expect(t, "Lazy and TLS", s.Do("SELECT @@global.innodb_flush_log_at_trx_commit, @@have_ssl"), "0\tYES")
	expect(t, "Config", s.Do("SELECT @@global.sql_mode REGEXP 'ANSI_QUOTES.*NO_UNSIGNED_SUBTRACTION'"), "1")
	expect(t, "rows", s.Do("SELECT 1, 'ä\u20ac' UNION SELECT 2, NULL"), "1\tä\u20ac\n2\tNULL")
	expect(t, "user", s.Do("SELECT host FROM mysql.user WHERE user = '"+mysqltest.User+"'"), "%")
	if _, err := s.Query("SELECT * FROM nothing"); err == nil || !strings.Contains(err.Error(), "1146") {
		t.Errorf("got %v, want what the server has answered", err)
	}
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	connections := func(want int) func() (bool, error) {
		return func() (bool, error) { return len(s.Threads("user = 'unauthenticated user'")) == want, nil }
	}
	s.Check("see a connection", testserver.Until(connections(1)))
	if n := s.KillConnections("command = 'Connect'"); n != 1 {
		t.Errorf("%d connections are ended", n)
	}
	s.Check("see it end", testserver.Until(connections(0)))

	s.Set("innodb_flush_log_at_trx_commit", "1")
	s.Do("CREATE TABLE x (n INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO x VALUES (7)")
	s.Kill()
	if _, err := s.Query("SELECT 1"); err == nil {
		t.Fatal("answers after it was killed")
	}
	s.Restart()
	expect(t, "after the kill", s.Do("SELECT n FROM x"), "7")
	_, err = mysqltest.Run(t.TempDir(), mysqltest.Config("no_such_key", "1"))
	if err == nil || !strings.Contains(err.Error(), "no_such_key") {
		t.Errorf("got %v, want the server's own complaint", err)
	}
}
