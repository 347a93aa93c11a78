package mysqllock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

func permitOf(t *testing.T, s *driver.Opened, n int, queue string, capacity int64) (driver.Ticket, error) {
	t.Helper()
	return s.Join(t.Context(), driver.Request{ID: newID(n), Queue: queue, Kind: driver.Semaphore, Units: 1, Capacity: capacity})
}

// Promise: a number of permits that was set stays, also while nobody uses them and when the server is restarted.
func TestTheNumberOfPermitsOverARestart(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	d := opened(t, s.URL())
	noError(t, d.Resize(t.Context(), "q", 3))
	noError(t, d.Resize(t.Context(), "q", 4))
	s.Do("UPDATE interlock_queues SET since = since - 7200000000; CALL interlock_v5_tidy(0, 1000000)")
	s.Restart()
	d = opened(t, s.URL())
	a := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: time.Minute}))(t)
	for n := range 2 {
		if k, err := permitOf(t, a, 2*n, "q", 5); !errors.Is(err, driver.ErrMismatch) {
			t.Errorf("one of five permits where four were set: %+v, %v", k, err)
		}
		k, err := permitOf(t, a, 2*n+1, "q", 4)
		if err != nil || !k.Held {
			t.Fatalf("one of four permits: %+v, %v", k, err)
		}
		noError(t, a.Leave(t.Context(), k, true))
	}
	noError(t, d.Resize(t.Context(), "q", 0))
	if got := s.Do("SELECT tickets, used FROM interlock_queues WHERE name = 'q'"); strings.Join(strings.Fields(got), " ") != "0 0" {
		t.Errorf("tickets and units of an empty queue that keeps no number: %s", got)
	}
}
