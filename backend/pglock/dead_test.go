package pglock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: one who dies while it waits for more than is free is taken out soon, and
// those behind it who fit are served, though nothing that holds ends.
func TestDeadWaiterInFront(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	s := pgtest.Start(t)
	holder, dead, next := short(t, opened(t, s.URL()), ttl), short(t, opened(t, s.URL()), ttl), short(t, opened(t, s.URL()), ttl)
	r := request("q", 4)
	r.Units = 2
	beat(t, holder, join(t, holder, r))
	r = request("q", 4)
	r.Units = 3
	if k := join(t, dead, r); k.Held {
		t.Fatal("3 of 4 beside 2")
	}
	k := join(t, next, request("q", 4))
	beat(t, next, k)
	began := driver.Now()
	if took := granted(t, next, k).Sub(began); took > 10*ttl {
		t.Errorf("it was served after %v", took)
	}
}
