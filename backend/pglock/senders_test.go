package pglock_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: a user who may read the tables, and no more, changes nothing that clients know of their
// tickets, whatever that user sends to them. News of those who may change tickets are believed:
// a hand-over costs no look.
func TestNewsOfAReader(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.User("reader", ""))
	d := opened(t, s.URL())
	a, b := session(t, opened(t, s.URL()+"&application_name=a")), session(t, d)
	s.SQL("GRANT USAGE ON SCHEMA interlock TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA interlock TO reader")

	// Both learn who may send.
	var held driver.Ticket
	silent := func() bool {
		held = acquire(t, a, "q", 1)
		w := join(t, b, request("q", 1))
		got := make(chan driver.Ticket, 1)
		go func() {
			k, err := b.Await(t.Context(), w)
			if err != nil {
				t.Errorf("Await: %v", err)
			}
			got <- k
		}()
		until(t, "the client listens", func() bool { return len(s.Backends(listen)) > 0 })
		before := d.Exchanges()
		noError(t, a.Leave(t.Context(), held, true))
		k := <-got
		looks := d.Exchanges() - before
		noError(t, b.Leave(t.Context(), k, true))
		return looks == 0
	}
	for n := 0; !silent(); n++ {
		if n == 1000 {
			t.Fatal("no hand-over of 1,000 came without a look")
		}
	}

	held = acquire(t, a, "q", 1)
	w := join(t, b, request("q", 1))
	got := make(chan driver.Ticket, 1)
	go func() {
		k, _ := b.Await(t.Context(), w)
		got <- k
	}()
	other := acquire(t, a, "other", 1)
	_, err := a.Await(t.Context(), other) // its client listens, too
	noError(t, err)
	as(t, s, "reader", forged("interlock", held.Token))

	// What comes after them is heard after them.
	noError(t, d.Ask(t.Context(), "q", w.ID, driver.Revoke))
	for {
		sig := errtest.Must(b.Signals(t.Context()))(t)
		if sig.Demand == driver.Revoke {
			break
		}
		if sig.Demand != driver.Wanted {
			t.Fatalf("a reader has sent %+v", sig)
		}
	}
	select {
	case k := <-got:
		t.Fatalf("a reader has granted %+v", k)
	case <-time.After(100 * time.Millisecond):
	}
	for _, x := range []struct {
		driver.Session
		known driver.Ticket
	}{{a, held}, {b, w}} {
		all := errtest.Must(x.Renew(t.Context(), []driver.Ticket{x.known, other}))(t)
		if !slices.ContainsFunc(all, func(r driver.Renewed) bool { return r.ID == x.known.ID && r.State == driver.Kept }) {
			t.Errorf("after news of a reader: %+v", all)
		}
	}
	noError(t, a.Leave(t.Context(), held, true))
	if k := <-got; k.Token <= held.Token || k.Token >= driver.MaxToken {
		t.Errorf("after %+v: %+v", held, k)
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
