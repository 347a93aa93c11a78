package mysqllock_test

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: the row of a queue that nobody has used for an hour may be removed at any moment: a raise, and a
// number of permits that is set, take effect all the same.
func TestARowThatIsTidiedBetweenTwoStatements(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	d, a := session(t, s.URL())
	db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	defer db.Close()
	// After the procedure that makes the row of a queue another client tidies up at once: in the middle of each
	// procedure that goes on with that row.
	errtest.Must(db.ExecContext(t.Context(), "DROP PROCEDURE interlock_v5_make"))(t)
	all := errtest.Must(mysqllock.Schema(mysqllock.DefaultTablePrefix))(t)
	at := slices.IndexFunc(all, func(s string) bool { return strings.Contains(s, "CREATE PROCEDURE interlock_v5_make(") })
	errtest.Must(db.ExecContext(t.Context(), strings.TrimSuffix(all[at], "END")+`DELETE FROM interlock_queues
		WHERE name = p_name AND tickets = 0 AND since < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 3600000000; COMMIT; END`))(t)
	used := func(r driver.Request) {
		t.Helper()
		k := errtest.Must(a.Join(t.Context(), r))(t)
		noError(t, a.Leave(t.Context(), k, true))
		s.Do("UPDATE interlock_queues SET since = since - 7200000000")
	}

	used(mutex("raised", 1))
	const floor = 1 << 49
	noError(t, d.Raise(t.Context(), "raised", floor))
	if k, err := a.Join(t.Context(), mutex("raised", 2)); err != nil || k.Token <= floor {
		t.Errorf("after a raise to %d: %+v, %v", uint64(floor), k, err)
	}

	used(driver.Request{ID: newID(3), Queue: "resized", Kind: driver.Semaphore, Units: 1, Capacity: 2})
	noError(t, d.Resize(t.Context(), "resized", 3))
	if k, err := permitOf(t, a, 4, "resized", 2); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("one of two permits where three were set: %+v, %v", k, err)
	}
}

// Promise: a client that tidies up removes no queue that was used since it has found it idle: its last holder may have
// died.
func TestATidyThatIsLateForgetsNoDeath(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, a := session(t, s.URL())
	db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	defer db.Close()
	used := func(queue string, id int, clean bool) {
		t.Helper()
		r := mutex(queue, id)
		r.ReportDeath = true
		k := errtest.Must(a.Join(t.Context(), r))(t)
		noError(t, a.Leave(t.Context(), k, clean))
	}
	used("first", 1, true)
	used("second", 2, true)
	s.Do("UPDATE interlock_queues SET since = since - 7200000000")
	tx := errtest.Must(db.BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	errtest.Must(tx.ExecContext(t.Context(), "UPDATE interlock_queues SET last = last + 1 WHERE name = 'first'"))(t)
	tidied := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), "CALL interlock_v5_tidy(0, 2000)")
		tidied <- err
	}()
	busy.Until(t, "the tidy waits for the row of the first queue", func() bool {
		return strings.TrimSpace(s.Do("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")) != "0"
	})
	used("second", 3, false)
	noError(t, tx.Commit())
	noError(t, <-tidied)
	r := mutex("second", 4)
	r.ReportDeath = true
	if k, err := a.Join(t.Context(), r); err != nil || !k.Inherited {
		t.Errorf("after a holder that did not leave cleanly: %+v, %v", k, err)
	}
}
