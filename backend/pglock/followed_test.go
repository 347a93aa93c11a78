package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: whoever follows a queue is told when its only ticket comes and goes, though
// that is done by one statement when nobody else is there.
func TestAFollowerIsToldOfTheOnlyTicket(t *testing.T) {
	s := pgtest.Start(t)
	open := func() driver.Driver {
		d, err := openURL(t.Context(), s.URL())
		noError(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	a, b := open(), open()
	user := session(t, b)
	noError(t, user.Leave(t.Context(), join(t, user, request("q", 1)), true)) // makes the row
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, err := a.Follow(ctx, "q", "")
	noError(t, err)
	var held driver.Ticket
	type step struct {
		what    string
		do      func()
		members int
	}
	comes := step{"Join", func() { held = join(t, user, request("q", 1)) }, 1}
	goes := step{"Leave", func() { noError(t, user.Leave(ctx, held, true)) }, 0}
	for _, step := range []step{comes, goes, comes, goes} { // the first time the client just begins to listen, and looks
		got := make(chan error, 1)
		go func() {
			q, err := a.Follow(ctx, "q", seen.Version)
			seen = q
			got <- err
		}()
		until(t, "the queue is followed", func() bool { return s.SQL("SELECT watched FROM interlock.queue WHERE name = 'q'") == "t" })
		step.do()
		if err := <-got; err != nil || len(seen.Members) != step.members {
			t.Fatalf("Follow, after %s of the only ticket: %+v, %v", step.what, seen, err)
		}
	}
}
