package pglock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: one who dies while it waits for more than is free is taken out soon, and
// those behind it who fit are served, though nothing that holds ends.
func TestDeadWaiterInFront(t *testing.T) {
	t.Parallel()
	const long = time.Hour // nothing else ends while this lasts
	s := pgtest.Start(t)
	holder, dead, next := short(t, opened(t, s.URL()), long), short(t, opened(t, s.URL()), long), short(t, opened(t, s.URL()), long)
	r := request("q", 4)
	r.Units = 2
	join(t, holder, r)
	r = request("q", 4)
	r.Units = 3
	if k := join(t, dead, r); k.Held {
		t.Fatal("3 of 4 beside 2")
	}
	k := join(t, next, request("q", 4))
	s.SQL(fmt.Sprintf("UPDATE interlock.session SET ttl = 500000, expires = extract(epoch FROM clock_timestamp()) * 1000000 + 500000 WHERE id = '%s'", dead.ID))
	_, err := next.Renew(t.Context(), []driver.Ticket{k}) // one heartbeat says when to look
	noError(t, err)
	granted(t, next, k)
}
