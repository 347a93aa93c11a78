package mysqllock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

func permitOf(t *testing.T, s *driver.Opened, n int, queue string, capacity int64) (driver.Ticket, error) {
	t.Helper()
	return s.Join(t.Context(), driver.Request{ID: newID(n), Queue: queue, Kind: driver.Semaphore, Units: 1, Capacity: capacity})
}

// Promise: tables of an earlier release, whose procedures know nothing of it, keep a number of permits
// that was set, also while nobody uses them and when the server is restarted. What is missing is made
// by the user who has made the rest, and by no other, who is told so.
func TestTheNumberOfPermitsInTablesOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	d := opened(t, s.URL())
	s.Do("DROP PROCEDURE interlock_v2_resize; CREATE USER few@'%' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE, CREATE ROUTINE ON locks.* TO few@'%'")
	few := opened(t, s.URLOf("few", "pw"))
	if err := few.Resize(t.Context(), "q", 3); !errors.Is(err, errors.ErrUnsupported) || !driver.IsPermanent(err) {
		t.Errorf("the procedure is missing, and another user has made the rest: %v", err)
	}
	if err := d.Resize(t.Context(), "q", 3); err != nil {
		t.Fatal(err)
	}
	if err := few.Resize(t.Context(), "q", 4); err != nil {
		t.Errorf("the procedure was made: %v", err)
	}
	s.Do("UPDATE interlock_queues SET since = since - 7200000000; CALL interlock_v2_tidy(0, 1000000)")
	s.Restart()
	d = opened(t, s.URL())
	a, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if k, err := permitOf(t, a, 2*n, "q", 5); !errors.Is(err, driver.ErrMismatch) {
			t.Errorf("one of five permits where four were set: %+v, %v", k, err)
		}
		k, err := permitOf(t, a, 2*n+1, "q", 4)
		if err != nil || !k.Held {
			t.Fatalf("one of four permits: %+v, %v", k, err)
		}
		if err := a.Leave(t.Context(), k, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Resize(t.Context(), "q", 0); err != nil {
		t.Fatal(err)
	}
	if got := s.Do("SELECT tickets, used FROM interlock_queues WHERE name = 'q'"); strings.Join(strings.Fields(got), " ") != "0 0" {
		t.Errorf("tickets and units of an empty queue that keeps no number: %s", got)
	}

	s.Do("DROP PROCEDURE interlock_v2_resize")
	stranger(t, s, "interlock_v2_resize")
	if err := d.Resize(t.Context(), "q", 3); err == nil || !strings.Contains(err.Error(), "stranger@%") {
		t.Errorf("the procedure is of a stranger: %v", err)
	}
	if called := s.Do("SELECT name FROM called"); called != "" {
		t.Errorf("called: %s", called)
	}
}
