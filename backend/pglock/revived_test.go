package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: after a crash that has emptied the unlogged tables, a client that asks about
// its ticket before anybody has begun a session is not told that it is gone: the lease of
// a fixed time stands, with its token, and nobody else gets it.
func TestALookBeforeTheFirstSessionAfterACrash(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable())
	open := func() driver.Driver {
		d := errtest.Must(openURL(t.Context(), s.URL()))(t)
		t.Cleanup(func() { d.Close() })
		return d
	}
	a, b := open(), open()
	holder, r := session(t, a), request("fixed", 1)
	r.Hold = time.Hour
	held := join(t, holder, r)
	r.Retry = true
	s.Kill()
	s.Restart()

	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
	defer cancel()
	looks := map[string]func() error{
		"Join, repeated": func() error { _, err := holder.Join(ctx, r); return err },
		"Await": func() error {
			ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // it outlasts other errors
			defer cancel()
			_, err := holder.Await(ctx, held)
			return err
		},
	}
	for what, look := range looks {
		for {
			err := look()
			if err == nil || errors.Is(err, driver.ErrGone) {
				t.Fatalf("%s of a lease of a fixed time, right after a crash: %v", what, err)
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: the server does not say that a session has to begin first: %v", what, err)
			}
			if strings.Contains(err.Error(), "a new session has to begin first") || what == "Await" && errors.Is(err, context.DeadlineExceeded) {
				break
			}
		}
	}

	other := session(t, b)
	got, err := holder.Join(ctx, r)
	for err != nil && !driver.IsPermanent(err) && ctx.Err() == nil { // of a connection from before the crash
		got, err = holder.Join(ctx, r)
	}
	if err != nil || !got.Held || got.Token != held.Token {
		t.Errorf("the lease with the token %d is %+v, %v", held.Token, got, err)
	}
	late := request("fixed", 1)
	late.NoWait = true
	if got, err := other.Join(ctx, late); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("beside the lease another gets %+v, %v", got, err)
	}
}

// Promise: what outlasts a crash is as it was last: the units that a ticket with a fixed
// end was reduced to, the end that an eviction has left it, a raised token, and that a
// ticket has left.
func TestFixedTicketsOverACrash(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable())
	d := errtest.Must(openURL(t.Context(), s.URL()))(t)
	holder := session(t, d)
	fixed := func(queue string, units, capacity int64) driver.Ticket {
		r := request(queue, capacity)
		r.Units, r.Hold = units, time.Hour
		return join(t, holder, r)
	}
	shrunk := fixed("shrunk", 3, 3)
	noError(t, holder.Shrink(t.Context(), shrunk, 1))
	evicted, left := fixed("evicted", 1, 1), fixed("left", 1, 1)
	noError(t, d.Ask(t.Context(), "evicted", evicted.ID, driver.Evict))
	noError(t, holder.Leave(t.Context(), left, true))
	const floor = int64(1) << 50 // far above the clock
	noError(t, d.Raise(t.Context(), "raised", uint64(floor)))
	noError(t, d.Close())
	s.Kill()
	s.Restart()

	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
	defer cancel()
	after := errtest.Must(openURL(ctx, s.URL()))(t)
	t.Cleanup(func() { after.Close() })
	next := session(t, after)
	for _, queue := range []string{"shrunk", "evicted"} {
		q, err := after.Follow(ctx, queue, "")
		if err != nil || len(q.Members) != 1 {
			t.Fatalf("%s: %+v, %v", queue, q, err)
		}
		if m := q.Members[0]; m.Units != 1 || !m.Fixed || m.Left > time.Hour {
			t.Errorf("%s: %+v; it was to have a unit and an hour left at most", queue, m)
		}
	}
	errtest.Is(t, next.Keep(ctx, evicted, 2*time.Hour), driver.ErrGone, "Keep of an evicted ticket for longer")
	if q, err := after.Follow(ctx, "left", ""); err != nil || len(q.Members) != 0 {
		t.Errorf("a ticket that had left: %+v, %v", q, err)
	}
	join(t, next, request("raised", 1)) // it waits until those of before the crash are over
	if first := s.SQL(fmt.Sprintf("SELECT min(t.n + q.offset) > %d FROM interlock.ticket t JOIN interlock.queue q ON q.name = t.queue WHERE t.queue = 'raised'", floor)); first != "t" {
		t.Errorf("the tokens of a queue that was raised begin above its floor after a crash: %q", first)
	}
}

// Promise: numbers of queues that are made anew begin above those of all whose rows were
// removed, so that tokens grow whatever the clock says.
func TestNumbersOverTheRemovalOfAQueue(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := errtest.Must(openURL(t.Context(), s.URL()))(t)
	t.Cleanup(func() { d.Close() })
	a := session(t, d)
	for _, queue := range []string{"a", "b"} {
		noError(t, a.Leave(t.Context(), join(t, a, request(queue, 1)), true))
	}
	const hours = "1000000000" // almost three hours, in units of 10 µs
	s.SQL("UPDATE interlock.queue SET last = last - " + hours + ", granted = granted - " + hours + " WHERE name = 'a'")
	last := s.SQL("SELECT last FROM interlock.queue WHERE name = 'a'")
	s.SQL("SELECT interlock.tidy()")
	if left := s.SQL("SELECT string_agg(name, ' ') FROM interlock.queue"); left != "b" {
		t.Fatalf("the rows %q are left, not the one that was used lately", left)
	}
	if above := s.SQL("SELECT floor >= " + last + " FROM interlock.sentinel"); above != "t" {
		t.Errorf("the floor is not above %s: %q", last, above)
	}
}
