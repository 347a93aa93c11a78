package mysqllock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// cycles is how often each of the goroutines of a test holds: MYSQLLOCK_CYCLES times as
// often as by default.
func cycles(n int) int {
	if times, err := strconv.Atoi(os.Getenv("MYSQLLOCK_CYCLES")); err == nil {
		n *= times
	}
	return n
}

// Promise: connections that are killed or cut and statements that are interrupted, at
// any moment, leave one holder at a time, nobody waiting, and no row of a ticket.
func TestKilledConnections(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	proxy := testserver.NewProxy(t, s.Addr)
	chaos.Run(t, chaos.Load{URL: strings.Replace(s.URL(), s.Addr, proxy.Addr, 1), TTL: 10 * time.Second, Clients: 4, Each: 6, Times: cycles(12)}, func() {
		switch rand.IntN(4) {
		case 0:
			s.KillConnections("user = 'app'")
		case 1: // those that wait for news, and nobody else
			s.KillConnections("user = 'app' AND state = 'User lock'")
		case 2:
			proxy.Cut()
		case 3: // in the middle of whatever they do
			for _, id := range s.Threads("user = 'app' AND command = 'Query'") {
				_, _ = s.Query(fmt.Sprint("KILL QUERY ", id))
			}
		}
	})
	nothingLeft(t, s)
}

// Promise: a server that is killed and comes back with its data leaves one holder at
// a time, nobody waiting, and no row of a ticket.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	chaos.Run(t, chaos.Load{URL: s.URL(), TTL: time.Second, Clients: 4, Each: 6, Times: cycles(3)}, func() {
		time.Sleep(rand.N(100 * time.Millisecond))
		s.Kill()
		s.Restart()
	})
	nothingLeft(t, s)
}

// Promise: a server that has forgotten the last second when it comes back from a crash
// grants nothing until those who hold are told: one holder at a time, and tokens grow.
func TestKilledServerThatForgets(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	s := mysqltest.Start(t, mysqltest.Lazy())
	opened(t, s.URL())
	s.Set("innodb_flush_log_at_trx_commit", "1") // what is there by now is not forgotten
	s.Do("UPDATE interlock_meta SET longest = " + strconv.FormatInt(ttl.Microseconds(), 10))
	s.Set("innodb_flush_log_at_trx_commit", "0")
	chaos.Run(t, chaos.Load{URL: s.URL(), TTL: ttl, Clients: 4, Each: 6, Times: cycles(3)}, func() {
		time.Sleep(rand.N(100 * time.Millisecond))
		s.Kill()
		s.Restart()
	})
	// Tickets whose release was forgotten are in the way of nobody.
	c := errtest.Must(interlock.Open(t.Context(), s.URL()))(t)
	defer c.Close()
	for i := range 2 {
		noError(t, c.Mutex(fmt.Sprint("chaos/", i)).Do(t.Context(), func(context.Context) error { return nil }))
	}
	nothingLeft(t, s)
}

// Promise: a server that has a binary log and does not wait for it may have forgotten
// grants when it comes back from a power loss: all sessions are ended, and nothing is
// granted until those who held have been told or have run out. One that waits for its
// binary log goes on as it was.
func TestServerThatDoesNotWaitForItsBinaryLog(t *testing.T) {
	t.Parallel()
	for _, waits := range []string{"0", "1"} {
		s := mysqltest.Start(t, mysqltest.Config("log_bin", "binlog"), mysqltest.Config("server_id", "1"), mysqltest.Config("sync_binlog", waits))
		d := opened(t, s.URL())
		a := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour}))(t)
		r := driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
		held := joined(t, a, r, true)
		s.Kill()
		s.Restart()
		var kept []driver.Renewed
		var err error
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
			if kept, err = a.Renew(t.Context(), []driver.Ticket{held}); err == nil || driver.IsPermanent(err) {
				break
			}
		}
		if waits == "1" {
			if err != nil || len(kept) != 1 || kept[0].State != driver.Kept {
				t.Errorf("sync_binlog = 1: %+v, %v", kept, err)
			}
			continue
		}
		if !errors.Is(err, driver.ErrSession) {
			t.Errorf("sync_binlog = 0: the holder's session goes on: %+v, %v", kept, err)
		}
		b := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour}))(t)
		r.ID, r.NoWait = exchange.NewID(), true
		if got, err := b.Join(t.Context(), r); !errors.Is(err, driver.ErrBusy) {
			t.Errorf("sync_binlog = 0: granted at once: %+v, %v", got, err)
		}
		r.ID, r.NoWait = exchange.NewID(), false
		errtest.Must(b.Join(t.Context(), r))(t)
		s.Do("CALL interlock_v5_settle('q')")
		if held := s.Do("SELECT COUNT(*) FROM interlock_tickets t JOIN interlock_queues q ON q.no = t.queue WHERE t.n <= q.granted"); held != "0" {
			t.Errorf("sync_binlog = 0: %s who wait are granted at once", held)
		}
		if longer := s.Do("SELECT until > (UNIX_TIMESTAMP() + 1800) * 1000000 FROM interlock_boot"); longer != "1" {
			t.Error("sync_binlog = 0: something is granted before the longest TTL is over")
		}
	}
}

// nothingLeft waits until no ticket stands, though some clients may have given up one
// without knowing whether it does.
func nothingLeft(t *testing.T, s *mysqltest.Server) {
	t.Helper()
	var rows, counts string
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		rows = s.Do("SELECT COUNT(*) FROM interlock_tickets")
		counts = s.Do("SELECT COALESCE(SUM(tickets + waiting + used), 0) FROM interlock_queues")
		if rows == "0" && counts == "0" {
			return
		}
	}
	t.Errorf("%s tickets stand, and the queues count %s:\n%s", rows, counts, strings.TrimSpace(s.Do("SELECT * FROM interlock_queues; SELECT * FROM interlock_tickets")))
}
