package pglock_test

import (
	"errors"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: a name is not dead when somebody has deleted rows of its tickets: the next one who asks gets it.
func TestANameWhoseTicketsWereDeletedGoesOn(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	for _, c := range []struct{ name, deleted string }{
		{"all", "true"}, {"holder", "n <= granted"}, {"waiter", "n > granted"},
	} {
		for _, noWait := range []bool{true, false} {
			a, b, next := session(t, opened(t, s.URL())), session(t, opened(t, s.URL())), session(t, opened(t, s.URL()))
			held, waiting := acquire(t, a, c.name, 1), join(t, b, request(c.name, 1))
			s.SQL("DELETE FROM interlock.ticket t USING interlock.queue q WHERE t.queue = q.name AND q.name = '" + c.name + "' AND " + c.deleted)
			if c.name == "waiter" {
				noError(t, a.Leave(t.Context(), held, true))
			}
			if c.name == "holder" {
				r := request(c.name, 1)
				r.NoWait = true
				if _, err := next.Join(t.Context(), r); !errors.Is(err, driver.ErrBusy) { // it finds that the holder is not there
					t.Fatal(err)
				}
				if got, err := b.Await(t.Context(), waiting); err != nil || b.Leave(t.Context(), got, true) != nil {
					t.Fatalf("who waited: %+v, %v", got, err)
				}
			}
			r := request(c.name, 1)
			r.NoWait = noWait
			got := join(t, next, r)
			if !got.Held {
				got = errtest.Must(next.Await(t.Context(), got))(t)
			}
			noError(t, next.Leave(t.Context(), got, true))
		}
	}
}
