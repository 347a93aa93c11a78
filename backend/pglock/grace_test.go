package pglock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/pglock"
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
			sql, err := pglock.Schema{}.SQL()
			noError(t, err)
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

// safe is when the grace of a server ends, by its clock, and serverTime is that clock.
func safe(t *testing.T, s *pgtest.Server) time.Duration {
	return micros(t, s.SQL("SELECT safe FROM interlock.sentinel"))
}

func serverTime(t *testing.T, s *pgtest.Server) time.Duration {
	return micros(t, s.SQL("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
}

func micros(t *testing.T, text string) time.Duration {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	noError(t, err)
	return time.Duration(n) * time.Microsecond
}
