package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: settings that an administrator gives a role while it works, and that make
// transactions fail or connections end, cost time and nothing else.
func TestSettingsOfTheRole(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Setup("CREATE ROLE worker LOGIN SUPERUSER"))
	all := clients(t, 3, s.URLOf("worker", ""), interlock.TTL(5*time.Second))
	showTables(t, s)
	load := startLoad(t, all, 2, nil)
	for _, set := range []string{
		"default_transaction_isolation = 'serializable'",
		"default_transaction_isolation = 'repeatable read'",
		"statement_timeout = '30ms'",
		"lock_timeout = '5ms'",
		"idle_in_transaction_session_timeout = '1ms'",
		"idle_session_timeout = '50ms'",
		"synchronous_commit = off",
	} {
		s.SQL("ALTER ROLE worker RESET ALL; ALTER ROLE worker SET " + set)
		s.Terminate(ours) // who connects again has it
		load.goesOn()
		load.goesOn()
	}
	s.SQL("ALTER ROLE worker RESET ALL")
	s.Terminate(ours)
	load.end()
}

// Promise: a snapshot that another program holds open for long, which keeps old rows
// from being removed, makes it slower and nothing else.
func TestOldSnapshot(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := short(t, d, 10*time.Minute), short(t, d, 10*time.Minute)
	pairs := func() float64 {
		began := time.Now()
		const n = 500
		var last uint64
		for range n {
			k := join(t, a, request("q", 1))
			if !k.Held || k.Token <= last {
				t.Fatalf("%+v after %d", k, last)
			}
			last = k.Token
			noError(t, a.Leave(t.Context(), k, true))
		}
		return n / time.Since(began).Seconds()
	}
	free := pairs()
	raw := errtest.Must(pgx.Connect(t.Context(), s.URL()))(t)
	defer raw.Close(context.Background())
	tx := errtest.Must(raw.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))(t)
	errtest.Must(tx.Exec(t.Context(), "SELECT count(*) FROM interlock.queue"))(t)
	slow := pairs()
	slower := pairs()
	t.Logf("%.0f pairs/s; beside an old snapshot %.0f, then %.0f", free, slow, slower)
	k := join(t, a, request("q", 1))
	w := join(t, b, request("q", 1))
	if !k.Held || w.Held {
		t.Errorf("%+v beside %+v", k, w)
	}
	noError(t, a.Leave(t.Context(), k, true))
	granted(t, b, w)
}
