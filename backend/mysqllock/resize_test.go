package mysqllock_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// aged replaces a text of a procedure by that of an earlier release.
func aged(t *testing.T, s *mysqltest.Server, procedure, text, earlier string) {
	t.Helper()
	all := errtest.Must(mysqllock.Schema(mysqllock.DefaultTablePrefix))(t)
	db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	defer db.Close()
	name := "PROCEDURE interlock_v3_" + procedure
	for _, statement := range all {
		if strings.Contains(statement, "CREATE "+name+"(") && strings.Contains(statement, text) {
			for _, do := range []string{"DROP " + name, strings.Replace(statement, text, earlier, 1)} {
				errtest.Must(db.ExecContext(t.Context(), do))(t)
			}
			return
		}
	}
	t.Fatalf("no %s with %q", name, text)
}

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
	s.Do("DROP PROCEDURE interlock_v3_resize; CREATE USER few@'%' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE, CREATE ROUTINE ON locks.* TO few@'%'")
	few := opened(t, s.URLOf("few", "pw"))
	if err := few.Resize(t.Context(), "q", 3); !errors.Is(err, errors.ErrUnsupported) || !driver.IsPermanent(err) {
		t.Errorf("the procedure is missing, and another user has made the rest: %v", err)
	}
	noError(t, d.Resize(t.Context(), "q", 3))
	errtest.Is(t, few.Resize(t.Context(), "q", 4), nil, "the procedure was made")
	s.Do("UPDATE interlock_queues SET since = since - 7200000000; CALL interlock_v3_tidy(0, 1000000)")
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

	// Procedures of that release do not take who has more permits than all for an exclusive holder.
	aged(t, s, "out", "p_units >= v_capacity AND v_used = 0", "p_units = v_capacity")
	all := driver.Request{ID: newID(10), Queue: "robust", Kind: driver.Semaphore, Units: 3, Capacity: 3}
	held := errtest.Must(a.Join(t.Context(), all))(t)
	next := driver.Request{ID: newID(11), Queue: "robust", Kind: driver.Semaphore, Units: 1, Capacity: 3, ReportDeath: true}
	k, err := a.Join(t.Context(), next)
	noError(t, err)
	noError(t, d.Resize(t.Context(), "robust", 2))
	noError(t, a.Leave(t.Context(), held, false))
	if k, err = a.Await(t.Context(), k); err != nil || !k.Inherited {
		t.Errorf("the holder of all permits left uncleanly, and the next is %+v, %v", k, err)
	}

	s.Do("DROP PROCEDURE interlock_v3_resize")
	stranger(t, s, "interlock_v3_resize")
	if err := d.Resize(t.Context(), "q", 3); err == nil || !strings.Contains(err.Error(), "stranger@%") {
		t.Errorf("the procedure is of a stranger: %v", err)
	}
	if called := s.Do("SELECT name FROM called"); called != "" {
		t.Errorf("called: %s", called)
	}
}
