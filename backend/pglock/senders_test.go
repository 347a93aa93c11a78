package pglock_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: news of those who may change tickets are believed: a hand-over costs no look. (Those of others are in the
// rule Stranger.)
func TestAHandOverCostsNoLook(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := session(t, opened(t, s.URL()+"&application_name=a")), session(t, d)
	for n := 0; ; n++ { // until both have learned who may send
		held := acquire(t, a, "q", 1)
		w := join(t, b, request("q", 1))
		got := make(chan error, 1)
		go func() { _, err := b.Await(t.Context(), w); got <- err }()
		busy.Until(t, "the client listens", func() bool { return len(s.Backends(listen)) > 0 })
		before := d.Exchanges()
		noError(t, a.Leave(t.Context(), held, true))
		noError(t, <-got)
		looks := d.Exchanges() - before
		noError(t, b.Leave(t.Context(), w, true))
		if looks == 0 {
			return
		}
		if n == 1000 {
			t.Fatal("no hand-over of 1,000 came without a look")
		}
	}
}

// forged is SQL of somebody who may read the tables of a schema: every message about every ticket, to every client.
func forged(schema string, last uint64) (sql string) {
	send := func(before, after string) {
		sql += fmt.Sprintf("SELECT pg_notify(s.channel, '%s ' || t.id || '%s') FROM %s.ticket t, %s.session s WHERE s.channel <> '';", before, after, schema, schema)
	}
	for _, token := range []uint64{0, 1, last, last + 1, driver.MaxToken - 1, driver.MaxToken, 4611686018427387904} {
		send("g", fmt.Sprintf(" %d -", token))
		send("g", fmt.Sprintf(" %d iw", token))
	}
	for _, what := range []string{"x", "e", "r", "w"} {
		send(what, "")
	}
	send("f", " 9000000000000000")
	return sql
}

// as runs SQL as a user, three times in one server process: in between, clients ask who may send,
// those that have just done so the second time.
func as(t testing.TB, s *pgtest.Server, user, sql string) {
	t.Helper()
	conn := errtest.Must(pgx.Connect(t.Context(), s.URLOf(user, "")))(t)
	defer conn.Close(t.Context())
	for _, sql := range []string{sql, "SELECT pg_sleep(0.5)", sql, "SELECT pg_sleep(0.5)", sql} {
		errtest.Must(conn.Exec(t.Context(), sql))(t)
	}
}
