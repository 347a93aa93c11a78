package pglock_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: after a promotion nothing is granted for the default TTL, 15 s, at least: the
// standby may not have received that a session with a longer TTL than all before began, or
// that any did.
func TestGraceAfterAPromotion(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(t *testing.T, s *pgtest.Server){
		"without a longer TTL": func(t *testing.T, s *pgtest.Server) { short(t, opened(t, s.URL()), time.Second) },
		"without any session": func(t *testing.T, s *pgtest.Server) {
			sql := errtest.Must(pglock.Schema{}.SQL())(t)
			s.SQL("BEGIN;" + sql + "COMMIT;")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Start(t)
			standby := pgtest.StartStandby(t, s)
			before(t, s)
			standby.CatchUp(s)
			standby.StopReceiving()
			held := acquire(t, short(t, opened(t, s.URL()), 10*time.Second), "q", 1)
			s.Kill()
			standby.Promote()
			promoted := serverTime(t, standby)
			if k := join(t, short(t, opened(t, standby.URL()), 10*time.Second), request("q", 1)); k.Held {
				t.Fatalf("it is granted at once, with the token %d; before it was held with %d", k.Token, held.Token)
			}
			if grace := safe(t, standby) - promoted; grace < 15*time.Second {
				t.Errorf("the grace is %v", grace)
			}
		})
	}
}

// Promise: after a crash of the same server, which has kept what it knows of TTLs, the
// grace is the longest of these, and a new schema has none.
func TestGraceAfterACrash(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable())
	const ttl = time.Second
	d := opened(t, s.URL())
	short(t, d, ttl)
	if grace := s.SQL("SELECT safe FROM interlock.sentinel"); grace != "0" {
		t.Errorf("a new schema has a grace until %s", grace)
	}
	noError(t, d.Close()) // its connections would be found broken
	s.Kill()
	s.Restart()
	short(t, opened(t, s.URL()), ttl)
	if grace := safe(t, s) - serverTime(t, s); grace > 2*ttl {
		t.Errorf("the grace ends %v from now on, with TTLs of %v", grace, ttl)
	}
}

// Promise: a grace that is over is over for good. A clock that is set back then keeps nobody from
// a lock, whether it was used before or not; a heartbeat has noticed the end, or a new session.
func TestClockSetBackAfterTheGrace(t *testing.T) {
	t.Parallel()
	for name, notice := range map[string]func(t *testing.T, d driver.Driver, waited *driver.Opened){
		"seen by a heartbeat": func(t *testing.T, _ driver.Driver, waited *driver.Opened) {
			_, err := waited.Renew(t.Context(), nil)
			noError(t, err)
		},
		"seen by a session that begins": func(t *testing.T, d driver.Driver, _ *driver.Opened) { session(t, d) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := crashed(t, 5*time.Second)
			waited := session(t, d)
			noError(t, waited.Leave(t.Context(), acquire(t, waited, "used", 1), true))
			notice(t, d, waited)
			s.StepClock(-time.Hour)
			for _, queue := range []string{"used", "new"} {
				if _, err := waited.Join(t.Context(), atOnce(queue)); err != nil {
					t.Errorf("the lock %s, after the clock was set back: %v", queue, err)
				}
			}
		})
	}
}

// Promise: a clock that is set back during the grace does not end it, and prolongs it by
// another one at most: those who wait get the lock then.
func TestClockSetBackDuringTheGrace(t *testing.T) {
	t.Parallel()
	const grace = 15150 * time.Millisecond // at most: that of the default TTL
	const ttl = 10 * time.Second
	s, d := crashed(t, ttl)
	waits := short(t, d, ttl)
	k := join(t, waits, request("q", 1))
	if k.Held {
		t.Fatal("it is granted in the grace")
	}
	before := safe(t, s) - serverTime(t, s)
	s.StepClock(-time.Hour)
	stepped := time.Now()
	beat(t, waits, k)
	ctx, cancel := context.WithTimeout(t.Context(), 2*grace)
	defer cancel()
	_, err := waits.Await(ctx, k)
	took := time.Since(stepped)
	noError(t, err)
	if took < before-time.Second { // it was asked for a little earlier
		t.Errorf("it is granted after %v, of the grace %v were left", took, before)
	}
	if _, err := short(t, d, ttl).Join(t.Context(), atOnce("other")); err != nil {
		t.Errorf("another lock: %v", err)
	}
}

// crashed is a server that has crashed, with a grace of ttl and its margin, and a clock of its own.
func crashed(t *testing.T, ttl time.Duration) (*pgtest.Server, driver.Driver) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a clock for the server: on Linux only")
	}
	s := pgtest.Start(t, pgtest.Durable(), pgtest.FakeTime())
	d := opened(t, s.URL())
	short(t, d, ttl)
	noError(t, d.Close()) // its connections would be found broken
	s.Kill()
	s.Restart()
	d = opened(t, s.URL())
	short(t, d, ttl)
	return s, d
}

func atOnce(queue string) driver.Request {
	r := request(queue, 1)
	r.NoWait = true
	return r
}

// safe is when the grace of a server ends, by its clock, and serverTime is that clock.
func safe(t *testing.T, s *pgtest.Server) time.Duration {
	return micros(t, s.SQL("SELECT safe FROM interlock.sentinel"))
}

func serverTime(t *testing.T, s *pgtest.Server) time.Duration {
	return micros(t, s.SQL("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
}

func micros(t *testing.T, text string) time.Duration {
	t.Helper()
	n := errtest.Must(strconv.ParseInt(text, 10, 64))(t)
	return time.Duration(n) * time.Microsecond
}
