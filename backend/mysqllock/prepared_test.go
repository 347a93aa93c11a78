package mysqllock_test

import (
	"testing"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: a client has two statements prepared for each connection at most, none if it
// seldom locks, and does without on a server that prepares no more.
func TestFewPreparedStatements(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	const count = "prepared\\_stmt\\_count"
	expect := func(what string, want int) {
		t.Helper()
		if n := s.Status(count); n != want {
			t.Errorf("%s: %d prepared statements, not %d", what, n, want)
		}
	}
	n := 0
	d, one := session(t, s.URL())
	many := func(times int) {
		t.Helper()
		for range times {
			n++
			pair(t, one, n)
		}
	}
	many(2)
	expect("a few pairs", 0)
	many(50)
	expect("many pairs", 2)
	s.Do("ALTER TABLE interlock_queues COMMENT 'changed'; FLUSH TABLES")
	many(10)
	expect("the table was changed", 2)
	noError(t, d.Close())
	busy.Until(t, "statements end with their connection", func() bool { return s.Status(count) == 0 })

	s.Set("max_prepared_stmt_count", "0")
	_, one = session(t, s.URL())
	many(50)
	expect("a server that prepares none", 0)
}
