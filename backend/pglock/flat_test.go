package pglock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: how many rows a call reads depends neither on how many tickets its queue has
// nor on how many sessions there are, even if the server made its plans when it took all
// tables for small ones. PGLOCK_TICKETS makes the longest queue longer.
func TestRowsReadAreFlat(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Config("autovacuum", "off"))
	d := errtest.Must(openPool(t.Context(), s.URL()+"&pool_max_conns=1"))(t)
	t.Cleanup(func() { _ = d.Close() })
	own := short(t, d, time.Hour)
	s.SQL("VACUUM ANALYZE")
	read := func() int {
		t.Helper()
		if _, err := d.(ownPool).pool.Exec(t.Context(), "SELECT pg_stat_force_next_flush()"); err != nil { // older than version 15
			time.Sleep(1100 * time.Millisecond) // a connection reports once a second, with its next transaction
			_, err := d.Load(t.Context(), "another/value")
			noError(t, err)
		}
		n := errtest.Must(strconv.Atoi(s.SQL("SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'interlock'")))(t)
		return n
	}
	measure := func(queue string, tickets int) (rows []int) {
		first := join(t, own, request(queue, 1))
		others := opened(t, s.URL())
		line := short(t, others, time.Hour)
		second := join(t, line, request(queue, 1))
		crowd(t, line, tickets, func() driver.Request { return request(queue, 1) })
		noError(t, others.Close()) // its connections report
		busy.Until(t, "its connections have ended", func() bool { return len(s.Backends(ours)) == 0 })
		r := request(queue, 1)
		k := driver.Ticket{ID: r.ID, Queue: queue}
		before := read()
		for _, call := range []func() error{
			func() error { _, err := own.Join(t.Context(), r); return err },
			func() error { r.Retry = true; _, err := own.Join(t.Context(), r); return err },
			func() error { _, err := own.Renew(t.Context(), []driver.Ticket{k}); return err },
			func() error { _, err := own.Renew(t.Context(), []driver.Ticket{k, first}); return err },
			func() error { return own.Leave(t.Context(), k, true) },
			func() error { return own.Leave(t.Context(), first, true) },
			func() error { return d.Ask(t.Context(), queue, second.ID, driver.Force) },
		} {
			noError(t, call())
			now := read()
			rows = append(rows, now-before)
			before = now
		}
		return rows
	}
	few := measure("few", 5)
	s.SQL("INSERT INTO interlock.session SELECT gen_random_uuid(), '', '', ttl, expires, over FROM interlock.session, generate_series(1, 500)")
	many := measure("many", scaled("PGLOCK_TICKETS", 1000))
	t.Logf("rows read by a Join, a look, a Renew without the one that is held, and with it, the Leave of the last, that of the first, and taking out the next: %v among 5 tickets, %v among many", few, many)
	for i := range few {
		if many[i] > few[i]+30 { // a look counts those in front, up to a bound
			t.Errorf("call %d reads %d rows among 5 tickets and %d among many", i, few[i], many[i])
		}
	}
}
