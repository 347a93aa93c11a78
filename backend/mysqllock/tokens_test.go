package mysqllock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: tokens grow though the server's clock falls back, whichever way a ticket takes
// into its queue.
func TestTokensGrowWhenTheClockFallsBack(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, a := session(t, s.URL())
	_, b := session(t, s.URL())
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	n := 0
	join := func(by *driver.Opened, retry bool) driver.Ticket {
		t.Helper()
		n++
		r := mutex("q", n)
		r.Retry = retry
		k := errtest.Must(by.Join(ctx, r))(t)
		return k
	}
	leave := func(by *driver.Opened, k driver.Ticket) {
		t.Helper()
		noError(t, by.Leave(ctx, k, true))
	}
	var last uint64
	grows := func(how string, k driver.Ticket) {
		t.Helper()
		if !k.Held || k.Token <= last {
			t.Errorf("%s: the token %d after %d, held %v", how, k.Token, last, k.Held)
		}
		last = k.Token
	}
	for _, how := range []string{"the first", "alone"} {
		k := join(a, false)
		grows(how, k)
		leave(a, k)
		// As if the clock had been months ahead.
		s.Do("UPDATE interlock_queues SET last = last + 1099511627776, granted = granted + 1099511627776")
		last += 1 << 40
	}
	front := join(a, false)
	grows("before a line", front)
	line := []driver.Ticket{join(b, false), join(b, false), join(b, false)}
	leave(a, front)
	for _, k := range line {
		k := errtest.Must(b.Await(ctx, k))(t)
		grows("in a line", k)
		leave(b, k)
	}
	grows("that is looked for first", join(a, true))
}

// Promise: a raise outlasts the time for which nobody uses its lock, and the server's clock
// being set back.
func TestARaiseOutlastsALongPause(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	d, one := session(t, s.URL())
	g := &numbered{t: t, queue: "raised"}
	g.several(t.Context(), "before", one)
	const floor = 1 << 49
	noError(t, d.Raise(t.Context(), "raised", floor))
	g.last = max(g.last, floor)
	s.Do("UPDATE interlock_queues SET since = since - 7200000000; CALL interlock_v3_tidy(0, 1000000)")
	g.several(t.Context(), "after a long pause", one)
}
