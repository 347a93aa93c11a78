package pglock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/tabletest"
)

// Promise: a name is not dead when somebody has deleted rows of its tickets: the next one who asks gets it.
func TestANameWhoseTicketsWereDeletedGoesOn(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	where := map[string]string{"all": "true", "holder": "n <= granted", "waiter": "n > granted"}
	tabletest.DeletedTickets(t, func() *driver.Opened { return session(t, opened(t, s.URL())) }, func(queue, which string) {
		s.SQL("DELETE FROM interlock.ticket t USING interlock.queue q WHERE t.queue = q.name AND q.name = '" + queue + "' AND " + where[which])
	})
}

// Promise: what was left and what was swapped is remembered for long enough, whatever is tidied up meanwhile.
func TestTidyingForgetsNothingThatIsNeeded(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	tabletest.Tidying(t, d, session(t, d), func() {
		s.SQL(`UPDATE interlock.swap SET at = at - 60000000;
			UPDATE interlock.queue SET last = last - 1000000000, granted = granted - 1000000000;
			SELECT interlock.tidy()`)
	})
}

// Promise: tokens grow though the server's clock falls back, whichever way a ticket takes into its queue.
func TestTokensGrowWhenTheClockFallsBack(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	tabletest.ClockFallsBack(t, session(t, opened(t, s.URL())), session(t, opened(t, s.URL())), func(n uint64) {
		s.SQL(fmt.Sprintf("UPDATE interlock.queue SET last = last + %[1]d, granted = granted + %[1]d, most = most + 2 * %[1]d", n))
	})
}

// Promise: a heartbeat proves what it names though the queue of a ticket that it does not name, or of one that is a
// stray still, is locked by somebody else.
func TestHeartbeatBesideALockedQueue(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	tx := &late{t, s, connect(t, s)}
	tabletest.LockedQueue(t, short(t, opened(t, s.URL()), 24*time.Second), func(queues ...string) func() {
		tx.exec("BEGIN; SELECT FROM interlock.queue WHERE name IN ('" + strings.Join(queues, "', '") + "') FOR UPDATE")
		return func() { tx.exec("COMMIT") }
	}, func(id string) bool {
		return s.SQL(fmt.Sprintf("SELECT count(*) FROM interlock.ticket WHERE id = '%s' AND flags & 16 <> 0 AND ends IS NOT NULL", id)) == "1"
	})
}

// Promise: where the server has no more connections, the one for news takes the place of another: a process that does
// not hear of a grant would hold up the whole line.
func TestNewsTakeThePlaceOfAnotherConnection(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Setup("CREATE ROLE few LOGIN; GRANT CREATE ON DATABASE postgres TO few"))
	calls := session(t, opened(t, s.URLOf("few", "")+"&pool_max_conns=3"))
	holder := session(t, opened(t, s.URL()+"&schema_owner=few")) // who holds listens, too
	tabletest.News(t, calls, holder, 3, func() int { return len(s.Backends("usename = 'few' AND NOT " + listen)) },
		func() { s.SQL("ALTER ROLE few CONNECTION LIMIT 3") },
		func() bool { return len(s.Backends("usename = 'few' AND "+listen)) == 1 })
}

// Promise: no token comes twice and none falls when an asynchronous standby takes over that has not received the last
// grants, be it of queues whose tokens were raised or not, and of a primary that had crashed before.
func TestTokensOverAFailoverThatLosesGrants(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		durability string
		crash      bool
	}{"logged": {"logged", false}, "unlogged": {"unlogged", false}, "unlogged and crashed": {"unlogged", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Start(t, pgtest.Durable())
			standby := pgtest.StartStandby(t, s)
			from := func(s *pgtest.Server, when string) *driver.Opened { // over connections of its own: those of before have died
				return short(t, opened(t, s.URL()+"&application_name="+when+"&durability="+c.durability), 5*time.Second)
			}
			// The grace is for the longest TTL, which nobody has any more.
			over := func() { s.SQL("UPDATE interlock.meta SET longest = 1000000") }
			d := opened(t, s.URL()+"&durability="+c.durability)
			f := tabletest.Failover{Driver: d, Before: session(t, d),
				Detach:  func() { over(); standby.CatchUp(s); standby.StopReceiving() },
				Promote: func() *driver.Opened { s.Kill(); standby.Promote(); return from(standby, "promoted") }}
			if c.crash {
				f.Crash = func() *driver.Opened { s.Kill(); s.Restart(); return from(s, "restarted") }
			}
			f.RepeatsNoToken(t)
		})
	}
}
