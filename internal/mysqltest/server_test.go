package mysqltest_test

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/mysqltest"
)

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("never: ", what)
		}
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	expect(t, "rows", s.Do("SELECT 1, 'ä\u20ac' UNION SELECT 2, NULL"), "1\tä\u20ac\n2\tNULL")
	expect(t, "user", s.Do("SELECT host FROM mysql.user WHERE user = '"+mysqltest.User+"'"), "%")
	expect(t, "database", s.Do("SELECT DATABASE()"), mysqltest.Database)
	expect(t, "URL", s.URL(), "mysql://app:secret@"+s.Addr+"/locks")
	expect(t, "DSN", s.DSN(), "app:secret@tcp("+s.Addr+")/locks")
	_, err := s.Query("SELECT * FROM nothing")
	if err == nil || !strings.Contains(err.Error(), "1146") {
		t.Errorf("got %v, want what the server has answered", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.Config("wait_timeout", "77"), mysqltest.Config("sql_mode", "ANSI", "PAD_CHAR_TO_FULL_LENGTH"), mysqltest.Lazy())
	expect(t, "wait_timeout", s.Do("SELECT @@global.wait_timeout"), "77")
	expect(t, "Lazy", s.Do("SELECT @@global.innodb_flush_log_at_trx_commit"), "0")
	if mode := s.Do("SELECT @@global.sql_mode"); !strings.Contains(mode, "PAD_CHAR_TO_FULL_LENGTH") || !strings.Contains(mode, "ANSI_QUOTES") {
		t.Error("sql_mode", mode)
	}
	s.Set("wait_timeout", "78")
	expect(t, "Set", s.Do("SELECT @@global.wait_timeout"), "78")
	_, err := mysqltest.Run(t.TempDir(), mysqltest.Config("no_such_key", "1"))
	if err == nil || !strings.Contains(err.Error(), "no_such_key") {
		t.Errorf("got %v, want the server's own complaint", err)
	}
}

// A server that was killed has what was committed, and its port.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	s.Do("CREATE TABLE x (n INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO x VALUES (7)")
	addr, pid := s.Addr, s.Pid()
	s.Kill()
	if _, err := s.Query("SELECT 1"); err == nil {
		t.Fatal("answers after it was killed")
	}
	s.Restart()
	expect(t, "address", s.Addr, addr)
	expect(t, "after the kill", s.Do("SELECT n FROM x"), "7")
	if s.Pid() == pid {
		t.Error("the same process")
	}
	s.Restart()
	expect(t, "after the end in good order", s.Do("SELECT n FROM x"), "7")
}

func TestThreads(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.Config("connect_timeout", "600"))
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	eventually(t, "one connection that has not said who it is", func() bool { return len(s.Threads("user = 'unauthenticated user'")) == 1 })
	if n := s.KillConnections("command = 'Connect'"); n != 1 {
		t.Errorf("%d connections are ended", n)
	}
	eventually(t, "none", func() bool { return len(s.Threads("TRUE")) == 0 })
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.TLS())
	expect(t, "TLS", s.Do("SELECT @@have_ssl"), "YES")
	for _, path := range []string{s.CA, s.ClientCert, s.ClientKey} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	s, err := mysqltest.Run(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Pause()
	s.Stop()
	s.Stop()
	if _, err := net.Dial("tcp", s.Addr); err == nil {
		t.Error("it still listens")
	}
}
