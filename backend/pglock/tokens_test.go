package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: tokens grow though the server's clock falls back, whichever way a ticket takes
// into its queue.
func TestTokensGrowWhenTheClockFallsBack(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	a, b := session(t, opened(t, s.URL())), session(t, opened(t, s.URL()))
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	var last uint64
	grows := func(how string, k driver.Ticket) {
		t.Helper()
		if !k.Held || k.Token <= last {
			t.Errorf("%s: the token %d after %d, held %v", how, k.Token, last, k.Held)
		}
		last = k.Token
	}
	first := join(t, a, request("q", 1))
	grows("the first", first)
	noError(t, a.Leave(ctx, first, true))
	// As if the clock had been months ahead.
	s.SQL("UPDATE interlock.queue SET last = last + (1::bigint << 40), granted = granted + (1::bigint << 40), most = most + (1::bigint << 41)")
	last += 1 << 40

	front := join(t, a, request("q", 1))
	grows("alone", front)
	line := []driver.Ticket{join(t, b, request("q", 1)), join(t, b, request("q", 1)), join(t, b, request("q", 1))}
	noError(t, a.Leave(ctx, front, true))
	for _, k := range line {
		k := errtest.Must(b.Await(ctx, k))(t)
		grows("in a line", k)
		noError(t, b.Leave(ctx, k, true))
	}
	again := request("q", 1)
	again.Retry = true
	grows("that is looked for first", join(t, a, again))
}
