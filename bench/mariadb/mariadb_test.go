package mariadb

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

// A pair is two questions and two transactions, questions of usage are none. The
// server has transactions of its own now and then.
func TestUsageIsThatOfContenders(t *testing.T) {
	_, s := startServer(t)
	const n = 100
	commands, transactions := trial.Usage(t, s, trial.Contender(t, contenders(s.URL()), bareRow), n)
	if commands != 2*n {
		t.Errorf("%v questions", commands)
	}
	if transactions < 2*n || transactions > 2*n+10 {
		t.Errorf("%v transactions", transactions)
	}
}

// Clear also ends those who still hold or wait.
func TestClearLeavesNothing(t *testing.T) {
	_, s := startServer(t)
	c, err := trial.Contender(t, contenders(s.URL()), getLockName).Open(t.Context(), workload.Options{TTL: time.Minute, Clients: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lock("a")(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.admin.ExecContext(t.Context(), "CREATE TABLE b (c int)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"SELECT NOT IS_FREE_LOCK('a')",
		"SELECT count(*) FROM information_schema.tables WHERE table_name = 'b'",
	} {
		var n int
		if err := s.admin.QueryRowContext(t.Context(), query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", query, n, err)
		}
	}
}
