package mysqllock_test

import (
	"errors"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: a name is not dead when somebody has deleted rows of its tickets: the next one who asks gets it.
func TestANameWhoseTicketsWereDeletedGoesOn(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	n := 0
	request := func(queue string, noWait bool) driver.Request {
		n++
		r := mutex(queue, n)
		r.NoWait = noWait
		return r
	}
	hold := func(on *driver.Opened, r driver.Request) driver.Ticket {
		t.Helper()
		k, err := on.Join(t.Context(), r)
		if err == nil && !k.Held {
			k, err = on.Await(t.Context(), k)
		}
		noError(t, err)
		return k
	}
	leave := func(on *driver.Opened, k driver.Ticket) {
		t.Helper()
		noError(t, on.Leave(t.Context(), k, true))
	}
	for name, deleted := range map[string]string{"all": "1", "holder": "t.n <= q.granted", "waiter": "t.n > q.granted"} {
		for _, noWait := range []bool{true, false} {
			_, a := session(t, s.URL())
			_, b := session(t, s.URL())
			_, next := session(t, s.URL())
			held := hold(a, request(name, false))
			waiting := errtest.Must(b.Join(t.Context(), request(name, false)))(t)
			s.Do("DELETE t FROM interlock_tickets t JOIN interlock_queues q ON q.no = t.queue WHERE q.name = '" + name + "' AND " + deleted)
			switch name {
			case "waiter":
				leave(a, held)
			case "holder":
				if _, err := next.Join(t.Context(), request(name, true)); !errors.Is(err, driver.ErrBusy) { // it finds that the holder is not there
					t.Fatal(err)
				}
				got := errtest.Must(b.Await(t.Context(), waiting))(t)
				leave(b, got)
			}
			leave(next, hold(next, request(name, noWait)))
		}
	}
}
