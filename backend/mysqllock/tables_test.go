package mysqllock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/tabletest"
)

// Promise: a name is not dead when somebody has deleted rows of its tickets: the next one who asks gets it.
func TestANameWhoseTicketsWereDeletedGoesOn(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	where := map[string]string{"all": "1", "holder": "t.n <= q.granted", "waiter": "t.n > q.granted"}
	tabletest.DeletedTickets(t, func() *driver.Opened { _, a := session(t, s.URL()); return a }, func(queue, which string) {
		s.Do("DELETE t FROM interlock_tickets t JOIN interlock_queues q ON q.no = t.queue WHERE q.name = '" + queue + "' AND " + where[which])
	})
}

// Promise: a program that runs makes the tables again when they are not there any more, as its start
// would: a server that came back empty is used again. What was held is over, and it is told.
func TestARunningProgramMakesDroppedTablesAgain(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	tabletest.DroppedTables(t, opened(t, s.URL()), func() { s.Do("DROP DATABASE locks; CREATE DATABASE locks CHARACTER SET utf8mb4") })
}

const tidies = "UPDATE interlock_queues SET since = since - 7200000000; CALL interlock_v5_tidy(0, 1000000)"

// Promise: what was left and what was swapped is remembered for long enough, whatever is tidied up meanwhile.
func TestTidyingForgetsNothingThatIsNeeded(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	d, a := session(t, s.URL())
	tabletest.Tidying(t, d, a, func() { s.Do("UPDATE interlock_swaps SET at = at - 60000000; " + tidies) })
}

// Promise: tokens grow though the server's clock falls back, whichever way a ticket takes into its queue.
func TestTokensGrowWhenTheClockFallsBack(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, a := session(t, s.URL())
	_, b := session(t, s.URL())
	tabletest.ClockFallsBack(t, a, b, func(n uint64) {
		s.Do(fmt.Sprintf("UPDATE interlock_queues SET last = last + %[1]d, granted = granted + %[1]d", n))
	})
}

// Promise: a raise outlasts the time for which nobody uses its lock, and the server's clock being set back.
func TestARaiseOutlastsALongPause(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	d, a := session(t, s.URL())
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	g := &tabletest.Tokens{T: t, Queue: "raised"}
	g.Take(ctx, "before", a)
	noError(t, d.Raise(ctx, "raised", 1<<49))
	g.Last = 1 << 49
	s.Do(tidies)
	g.Take(ctx, "after a long pause", a)
}

// Promise: a heartbeat proves what it names though the queue of a ticket that it does not name, or of one that is a
// stray still, is locked by somebody else.
func TestHeartbeatBesideALockedQueue(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, one := idle(t, s, 4, 24*time.Second)
	tabletest.LockedQueue(t, one, func(queues ...string) func() {
		first, second := locked(t, s, queues[0]), locked(t, s, queues[1])
		return func() { first(); second() }
	}, func(id string) bool {
		return s.Do("SELECT COUNT(*) FROM interlock_tickets WHERE id = UNHEX('"+id+"') AND flags & 16 AND ends IS NOT NULL") == "1"
	})
}

// Promise: where the server has no more connections, one for news takes the place of others: a process that does not
// hear of a grant would hold up the whole line.
func TestNewsTakeThePlaceOfOtherConnections(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, one := session(t, s.URL())
	const most = 5
	tabletest.News(t, one, one, most, func() int { return len(s.Threads("user = 'app'")) },
		func() { s.Do(fmt.Sprint("ALTER USER app WITH MAX_USER_CONNECTIONS ", most)) },
		func() bool { return len(s.Threads("user = 'app' AND state = 'User lock'")) == 1 })
}
