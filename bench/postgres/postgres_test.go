package postgres

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/bench/trial"
	"github.com/interlock-go/interlock/bench/workload"
)

func startServer(t *testing.T) (workload.Backend, *server) {
	t.Helper()
	b := Backend("", 200)
	return b, trial.Start(t, b).(*server)
}

func TestAllDoNothingWrong(t *testing.T) {
	b, s := startServer(t)
	trial.All(t, b, s)
}

// A pair is two statements and two transactions, questions of usage are none.
func TestUsageIsThatOfContenders(t *testing.T) {
	_, s := startServer(t)
	const n = 100
	commands, transactions := trial.Usage(t, s, trial.Contender(t, contenders(s.URL()), bareRow), n)
	if commands != 2*n {
		t.Errorf("%v statements", commands)
	}
	if transactions != 2*n {
		t.Errorf("%v transactions", transactions)
	}
}

// Clear also ends those who still hold or wait.
func TestClearLeavesNothing(t *testing.T) {
	_, s := startServer(t)
	c, err := trial.Contender(t, contenders(s.URL()), advisoryName).Open(t.Context(), workload.Options{TTL: time.Minute, Clients: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lock("a")(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.admin.Exec(t.Context(), "CREATE SCHEMA a; CREATE TABLE a.b (c int); CREATE TABLE d (e int)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
		"SELECT count(*) FROM pg_namespace WHERE nspname = 'a'",
		"SELECT count(*) FROM pg_class WHERE relname IN ('b', 'd')",
	} {
		var n int
		if err := s.admin.QueryRow(t.Context(), query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", query, n, err)
		}
	}
}
