package mysqllock_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

func newID(n int) string { return fmt.Sprintf("%032x", n) }

func mutex(queue string, n int) driver.Request {
	return driver.Request{ID: newID(n), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

// apart is a URL for clients that are to share no connections with those of others, like those of another process.
func apart(url string, n int) string { return fmt.Sprintf("%s?dial_timeout=%dms", url, 5000+n) }

// session opens a driver and a session that lasts as long as the test.
func session(t *testing.T, url string) (driver.Driver, *driver.Opened) {
	t.Helper()
	d := errtest.Must(open(t.Context(), url))(t)
	t.Cleanup(func() { d.Close() })
	s := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: 20 * time.Minute, Owner: "test"}))(t)
	return d, s
}

// joined is a ticket that is held at once, or waits.
func joined(t *testing.T, s *driver.Opened, r driver.Request, held bool) driver.Ticket {
	t.Helper()
	k, err := s.Join(t.Context(), r)
	if err != nil || k.Held != held {
		t.Fatalf("%q: %+v, %v; to be held at once: %v", r.Queue, k, err, held)
	}
	return k
}

// sequence is a table that has the numbers from 0 to n-1 in its column seq.
func sequence(n int) string {
	digit := "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	sum, from := "0", ""
	for times, i := 1, 0; times < n; times, i = times*10, i+1 {
		sum += fmt.Sprintf(" + d%d.d * %d", i, times)
		from += fmt.Sprintf(", %s d%d", digit, i)
	}
	return fmt.Sprintf("(SELECT %[1]s AS seq FROM %[2]s WHERE %[1]s < %[3]d)", sum, strings.TrimPrefix(from, ", "), n)
}

// reading returns what says how many rows the server has read since, without those that
// it reads to answer that.
func reading(s *mysqltest.Server) (rows func() int) {
	count := func() int { return s.Status(`handler\_read\_%`) }
	before, own := count(), math.MaxInt
	for range 5 { // a heartbeat may come between two of them
		now := count()
		before, own = now, min(own, now-before)
	}
	return func() int { return count() - before - own }
}

// Promise: clients that begin to wait together ask the server little, however slow that
// makes it, and while they wait nothing but one statement in each heartbeat. Nor do they keep
// others from anything. A hand-over is two statements: its own, and one of who is woken.
func TestWaitingAsksNothing(t *testing.T) {
	t.Parallel()
	const clients = 100
	s := mysqltest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(3*time.Minute))
	defer cancel()
	_, holder := session(t, s.URL())
	sessions := make([]*driver.Opened, clients)
	for i := range sessions {
		_, sessions[i] = session(t, s.URL())
	}
	first, err := holder.Join(ctx, mutex("quiet", 1))
	noError(t, err)
	mine, own := 0, s.Status("questions")
	own = s.Status("questions") - own // what it takes to ask once
	ask := func(sql string) string { mine++; return s.Do(sql) }
	asked := func() int { mine++; return s.Status("questions") - mine*own }

	before := asked()
	tickets := make([]driver.Ticket, clients)
	joined, failed := make(chan error, clients), make(chan error, clients)
	for i := range sessions {
		go func() {
			var err error
			tickets[i], err = sessions[i].Join(ctx, mutex("quiet", i+2))
			joined <- err
			if err == nil {
				_, err = sessions[i].Await(ctx, tickets[i])
			}
			if err == nil {
				err = sessions[i].Leave(ctx, tickets[i], true)
			}
			failed <- err
		}()
	}
	for range clients {
		noError(t, <-joined)
	}
	busy.Until(t, "everybody listens", func() bool {
		return ask("SELECT COUNT(*) FROM interlock_sessions WHERE IS_USED_LOCK(CONCAT(CONVERT(channel USING utf8mb4), ':parked')) IS NOT NULL") == fmt.Sprint(clients+1) // with the holder, over one connection
	})
	now := asked()
	quiet := func() {
		t.Helper()
		busy.Until(t, "who waits has stopped asking", func() bool {
			last := now
			time.Sleep(time.Second)
			now = asked()
			return now-last <= 2 // the connection for news shows now and then that it is there
		})
	}
	quiet()
	begun := float64(now-before) / clients

	beats := func() {
		t.Helper()
		for i, one := range sessions {
			errtest.Must(one.Renew(ctx, tickets[i:i+1]))(t)
		}
	}
	beats() // a session that is half a minute old also removes what dead clients have left
	quiet()
	beats()
	beat := float64(asked()-now) / clients
	second := errtest.Must(sessions[0].Join(ctx, mutex("quiet", clients+2)))(t)
	fewest := clients
	for range 5 { // meanwhile the connection for news may show that it is there
		now = asked()
		errtest.Must(sessions[0].Renew(ctx, []driver.Ticket{tickets[0], second}))(t)
		fewest = min(fewest, asked()-now)
	}
	if fewest > 2 {
		t.Errorf("a heartbeat for two tickets is %d statements", fewest)
	}
	noError(t, sessions[0].Leave(ctx, second, true))
	ask("SET SESSION lock_wait_timeout = 30; FLUSH TABLES WITH READ LOCK; UNLOCK TABLES")

	before = asked()
	began := time.Now()
	noError(t, holder.Leave(ctx, first, true))
	for range clients {
		noError(t, <-failed)
	}
	handOff := float64(asked()-before) / clients
	t.Logf("statements of each of %d clients: %.1f to begin, %.1f for a heartbeat, %.1f for a hand-off", clients, begun, beat, handOff)
	listening := time.Since(began) < 5*time.Second // else some have ended that, which takes statements, too
	if begun > 12 || beat > 1.5 || handOff > 3 && listening {
		t.Error("waiting costs more statements")
	}
}

// Promise: what a ticket costs does not depend on how many stand in its queue: when it
// joins, when it leaves, and when its client looks after those near the front.
func TestCostIsFlat(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, one := session(t, s.URL())
	const times = 20
	rows := func(tickets int) (all [3]float64) {
		t.Helper()
		queue := fmt.Sprint("flat/", tickets)
		join := func(n int) driver.Ticket {
			tk := errtest.Must(one.Join(t.Context(), mutex(queue, tickets*1000+n)))(t)
			return tk
		}
		known := []driver.Ticket{join(1)}
		for n := range times { // near the front
			known = append(known, join(n+10))
		}
		s.Do(fmt.Sprintf(`
			INSERT INTO interlock_tickets(queue, n, id, units, session, since, hold, flags)
				SELECT q.no, q.last + seq + 1, UNHEX(LPAD(HEX(%[2]d000000000000 + seq), 32, '0')), 1, h.session, h.since, 0, 0
				FROM %[3]s numbers, interlock_queues q JOIN interlock_tickets h ON h.queue = q.no AND h.n <= q.granted WHERE q.name = '%[1]s';
			UPDATE interlock_queues SET tickets = tickets + %[2]d, waiting = waiting + %[2]d, last = last + %[2]d WHERE name = '%[1]s';
			ANALYZE TABLE interlock_tickets`, queue, tickets, sequence(tickets)))
		read := func(f func(n int)) float64 {
			read := reading(s)
			for n := range times {
				f(n)
			}
			return float64(read()) / times
		}
		all[0] = read(func(n int) { known = append(known, join(n+100)) })
		all[1] = read(func(int) {
			errtest.Must(one.Renew(t.Context(), known))(t)
		}) / float64(len(known))
		all[2] = read(func(n int) {
			noError(t, one.Leave(t.Context(), known[times+1+n], true))
		})
		for _, tk := range known[:times+1] {
			noError(t, one.Leave(t.Context(), tk, true))
		}
		return all
	}
	few, many := rows(10), rows(10000)
	t.Logf("rows read for a Join, a look and a Leave: %.1f among 10 and %.1f among 10,000 tickets", few, many)
	for i := range few {
		if many[i] > 2*few[i]+10 {
			t.Error("the cost of a ticket grows with its queue")
		}
	}
}

// Promise: a crowd of clients goes on in order on a server that has room for a few connections: those of a process
// share theirs, and processes that the server has no room for come later, without besieging it. MYSQLLOCK_CLIENTS makes
// the crowd larger.
func TestACrowdOfClientsOnAServerWithFewConnections(t *testing.T) {
	t.Parallel()
	many := 300
	if n, err := strconv.Atoi(os.Getenv("MYSQLLOCK_CLIENTS")); err == nil {
		many = n
	}
	for _, c := range []struct{ clients, processes int }{{many, 1}, {120, 12}} {
		t.Run(fmt.Sprintf("%d clients in %d processes", c.clients, c.processes), func(t *testing.T) {
			s := mysqltest.Start(t, mysqltest.Config("max_connections", "60"))
			ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(5*time.Minute))
			defer cancel()
			first, err := interlock.Open(ctx, s.URL()) // it makes the tables
			noError(t, err)
			defer first.Close()
			before, began := s.Status("Connection_errors_max_connections"), time.Now()
			var all sync.WaitGroup
			for i := range c.clients {
				all.Go(func() {
					var client *interlock.Client
					var err error
					for client == nil { // Open fails at once where there is no connection
						if client, err = interlock.Open(ctx, apart(s.URL(), i%c.processes)); err != nil {
							select {
							case <-time.After(time.Second):
							case <-ctx.Done():
								t.Errorf("Open: %v", err)
								return
							}
						}
					}
					defer client.Close()
					lease, err := client.Mutex("m").Acquire(ctx)
					if err == nil {
						err = lease.Release()
					}
					if err != nil {
						t.Errorf("client %d: %v", i, err)
					}
				})
			}
			all.Wait()
			refused := s.Status("Connection_errors_max_connections") - before
			t.Logf("%v, %d connections were refused", time.Since(began), refused)
			if refused > 50*c.clients {
				t.Errorf("the server has refused %d connections of %d clients", refused, c.clients)
			}
		})
	}
}
