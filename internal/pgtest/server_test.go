package pgtest_test

import (
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: a server answers when it is started, on a port of its own, and forgets
// nothing that was committed when it is restarted.
func TestServerKeepsItsDataOverARestart(t *testing.T) {
	s := pgtest.Start(t)
	s.SQL("CREATE TABLE a(n int); INSERT INTO a VALUES (1), (2)")
	before := s.Pid()
	s.Restart()
	if got := s.SQL("SELECT n FROM a ORDER BY n"); got != "1\n2" {
		t.Errorf("after the restart: %q", got)
	}
	if s.Pid() == before {
		t.Error("it is the same process")
	}
}

// Promise: Kill leaves nothing of the server's processes, and Restart starts from
// what was written to files.
func TestKilledServerRecovers(t *testing.T) {
	s := pgtest.Start(t)
	s.SQL("CREATE TABLE kept(n int); INSERT INTO kept VALUES (1); CREATE UNLOGGED TABLE lost(n int); INSERT INTO lost VALUES (1)")
	s.Kill()
	if s.Alive() {
		t.Error("it is alive")
	}
	s.Restart()
	if got := s.SQL("SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM lost)"); got != "1|0" {
		t.Errorf("rows that are left, logged and unlogged: %s", got)
	}
}

// Promise: the death of a single process of the server is a crash, from which it
// recovers by itself.
func TestKilledBackend(t *testing.T) {
	s := pgtest.Start(t)
	s.SQL("CREATE UNLOGGED TABLE lost(n int); INSERT INTO lost VALUES (1)")
	cmd := exec.Command("psql", "--no-psqlrc", "-c", "SELECT pg_sleep(600)", s.URL())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if err := pgtest.Until(func() (bool, error) { return len(s.Backends("query LIKE '%pg_sleep%'")) > 0, nil }); err != nil {
		t.Fatal(err)
	}
	if n := s.KillBackends("query LIKE '%pg_sleep%'"); n != 1 {
		t.Errorf("killed %d", n)
	}
	if err := <-ended; err == nil {
		t.Error("its client has noticed nothing")
	}
	if got := s.SQL("SELECT count(*) FROM lost"); got != "0" {
		t.Errorf("unlogged rows that are left: %s", got)
	}
}

// Promise: who connects by TCP needs the password, where that is asked for, and a
// user of few rights may make nothing.
func TestUsers(t *testing.T) {
	s := pgtest.Start(t, pgtest.Passwords(), pgtest.User("alice", "it's secret"))
	try := func(url, sql string) string {
		out, err := exec.Command("psql", "--no-psqlrc", "--no-password", "-Atc", sql, url).CombinedOutput()
		if err != nil {
			return "error: " + string(out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := try(s.URLOf("alice", "it's secret"), "SELECT current_user"); got != "alice" {
		t.Error(got)
	}
	if got := try(s.URLOf("alice", "wrong"), "SELECT 1"); !strings.Contains(got, "authentication failed") {
		t.Error(got)
	}
	if got := try(s.URLOf("alice", "it's secret"), "CREATE TABLE a(n int)"); !strings.Contains(got, "permission denied") {
		t.Error(got)
	}
}

// Promise: with TLS nobody gets in without, and the server's certificate is that of
// its authority.
func TestTLS(t *testing.T) {
	s := pgtest.Start(t, pgtest.TLS())
	if out, err := exec.Command("psql", "--no-psqlrc", "-Atc", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", s.URL()).CombinedOutput(); string(out) != "t\n" {
		t.Errorf("%s%v", out, err)
	}
	plain, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	plain.RawQuery = "sslmode=disable"
	if out, err := exec.Command("psql", "--no-psqlrc", "-Atc", "SELECT 1", plain.String()).CombinedOutput(); err == nil {
		t.Errorf("without TLS: %s", out)
	}
}

// Promise: a pooler gives its clients connections of the server, another one for each
// transaction if it likes.
func TestPooler(t *testing.T) {
	s := pgtest.Start(t)
	p := pgtest.StartPooler(t, s, "default_pool_size = 1")
	var pids []string
	for range 2 {
		out, err := exec.Command("psql", "--no-psqlrc", "-Atc", "SELECT pg_backend_pid()", p.URL()).CombinedOutput()
		if err != nil {
			t.Fatalf("%s%v", out, err)
		}
		pids = append(pids, string(out))
	}
	if pids[0] != pids[1] {
		t.Errorf("two clients, one after the other, have the connections %s and %s of a pool of one", pids[0], pids[1])
	}
}

// Promise: a standby receives what is committed on its primary, and takes its place
// when it is promoted.
func TestStandby(t *testing.T) {
	s := pgtest.Start(t)
	standby := pgtest.StartStandby(t, s)
	s.SQL("CREATE TABLE a(n int); INSERT INTO a VALUES (7)")
	if err := pgtest.Until(func() (bool, error) {
		out, err := standby.Exec(pgtest.Database, "SELECT n FROM a")
		return err == nil && out == "7", nil
	}); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	standby.Promote()
	if got := standby.SQL("INSERT INTO a VALUES (8) RETURNING n"); got != "8" {
		t.Error(got)
	}
}
