package pgtest_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/pgtest"
)

// query is what a client prints that connects by TCP, or its complaint.
func query(url, sql string) string {
	out, err := exec.Command("psql", "--no-psqlrc", "--no-password", "-Atc", sql, url).CombinedOutput()
	if err != nil {
		return "error: " + string(out)
	}
	return strings.TrimSpace(string(out))
}

// Promise: Kill leaves nothing of the server's processes, and Restart starts from
// what was written to files. The death of a single process is a crash, from which the server
// recovers by itself.
func TestKilledServerRecovers(t *testing.T) {
	s := pgtest.Start(t)
	s.SQL("CREATE TABLE kept(n int); INSERT INTO kept VALUES (1)")
	s.SQL("CREATE UNLOGGED TABLE lost(n int); INSERT INTO lost VALUES (1)")
	rows := "SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM lost)"
	s.Restart()
	if got := s.SQL(rows); got != "1|1" {
		t.Errorf("rows after a restart, logged and unlogged: %s", got)
	}
	s.Kill()
	if s.Alive() {
		t.Error("it is alive")
	}
	s.Restart()
	if got := s.SQL(rows); got != "1|0" {
		t.Errorf("rows after a kill: %s", got)
	}
	s.SQL("INSERT INTO lost VALUES (1)")
	ended := make(chan string, 1)
	go func() { ended <- query(s.URL(), "SELECT pg_sleep(600)") }()
	sleeps := func() (bool, error) { return len(s.Backends("query LIKE '%pg_sleep%'")) > 0, nil }
	s.Check("sleep", pgtest.Until(sleeps))
	if n := s.KillBackends("query LIKE '%pg_sleep%'"); n != 1 {
		t.Errorf("killed %d", n)
	}
	if got := <-ended; !strings.HasPrefix(got, "error") {
		t.Error("its client has noticed nothing")
	}
	if got := s.SQL(rows); got != "1|0" {
		t.Errorf("rows after a backend was killed: %s", got)
	}
}

// Promise: who connects by TCP needs TLS and the password, where that is asked for, and a
// user of few rights may make nothing.
func TestAccess(t *testing.T) {
	s := pgtest.Start(t, pgtest.TLS(), pgtest.Passwords(), pgtest.User("alice", "it's secret"))
	alice := s.URLOf("alice", "it's secret")
	for _, c := range []struct{ url, sql, want string }{
		{alice, "SELECT current_user, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", "alice|t"},
		{s.URLOf("alice", "wrong"), "SELECT 1", "authentication failed"},
		{alice, "CREATE TABLE a(n int)", "permission denied"},
		{strings.Replace(alice, "verify-full", "disable", 1), "SELECT 1", "no pg_hba.conf entry"},
	} {
		if got := query(c.url, c.sql); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s: got %q, want %q", c.url, c.sql, got, c.want)
		}
	}
}

// Promise: a pooler gives its clients connections of the server, another one for each
// transaction if it likes.
func TestPooler(t *testing.T) {
	p := pgtest.StartPooler(t, pgtest.Start(t), "default_pool_size = 1")
	first, second := query(p.URL(), "SELECT pg_backend_pid()"), query(p.URL(), "SELECT pg_backend_pid()")
	if first != second || strings.HasPrefix(first, "error") {
		t.Errorf("two clients, one after the other, have the connections %s and %s of a pool of one", first, second)
	}
}

// Promise: a standby receives what is committed on its primary, unless it is told not to, and takes its place
// when it is promoted. Its wall clock can be stepped.
func TestStandby(t *testing.T) {
	s := pgtest.Start(t, pgtest.FakeTime())
	standby := pgtest.StartStandby(t, s)
	s.SQL("CREATE TABLE a(n int); INSERT INTO a VALUES (7)")
	standby.CatchUp(s)
	standby.StopReceiving()
	s.SQL("INSERT INTO a VALUES (8)")
	if got := standby.SQL("SELECT n FROM a"); got != "7" {
		t.Errorf("got %q", got)
	}
	standby.StepClock(1000 * 24 * 3600 * 1e9)
	standby.Receive()
	standby.CatchUp(s)
	late := s.SQL("SELECT now() + interval '999 days'")
	if got := standby.SQL("SELECT count(*), now() > '" + late + "' FROM a"); got != "2|t" {
		t.Errorf("rows, and whether it is late: %s", got)
	}
	s.Kill()
	standby.Promote()
	if got := standby.SQL("INSERT INTO a VALUES (9) RETURNING n"); got != "9" {
		t.Error(got)
	}
}
