package pglock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock"
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
