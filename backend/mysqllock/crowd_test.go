package mysqllock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

func newID(n int) string { return fmt.Sprintf("%032x", n) }

func mutex(queue string, n int) driver.Request {
	return driver.Request{ID: newID(n), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

// session opens a driver and a session that lasts as long as the test.
func session(t *testing.T, url string) (driver.Driver, driver.Session) {
	t.Helper()
	d, err := open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s, err := d.Open(t.Context(), driver.SessionOptions{TTL: 20 * time.Minute, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return d, s
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

// Promise: a thousand stand in line, each is served in its turn, down to the very last,
// and a waiter costs a bounded number of statements, however many there are.
func TestCrowd(t *testing.T) {
	const waiters, clients = 1000, 20
	s := mysqltest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	drivers, sessions := make([]driver.Driver, clients), make([]driver.Session, clients)
	for i := range sessions {
		drivers[i], sessions[i] = session(t, s.URL()+"?max_connections=8")
	}
	of := func(n int) driver.Session { return sessions[n%clients] }
	tickets := make([]driver.Ticket, waiters)
	for n := range tickets {
		var err error
		if tickets[n], err = of(n).Join(ctx, mutex("crowd", n+1)); err != nil {
			t.Fatal(err)
		}
	}
	served := make(chan int, waiters)
	failed := make(chan error, waiters)
	before := s.Status("questions")
	rows := s.Status(`handler\_read\_%`)
	began := time.Now()
	for n, ticket := range tickets {
		go func() {
			_, err := of(n).Await(ctx, ticket)
			served <- n
			if err == nil {
				err = of(n).Leave(ctx, ticket, true)
			}
			failed <- err
		}()
	}
	for n := range waiters {
		if got := <-served; got != n {
			t.Fatalf("number %d is served in the place of %d", got, n)
		}
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	each := float64(s.Status("questions")-before) / waiters
	t.Logf("%d waiters of %d clients are drained in %v, with %.1f statements and %d reads of rows each",
		waiters, clients, took, each, (s.Status(`handler\_read\_%`)-rows)/waiters)
	if each > 8 {
		t.Errorf("%.1f statements for each waiter", each)
	}
}

// Promise: what a ticket costs does not depend on how many stand in its queue.
func TestCostIsFlat(t *testing.T) {
	s := mysqltest.Start(t)
	_, one := session(t, s.URL())
	rows := func(tickets int) (join, leave float64) {
		t.Helper()
		queue := fmt.Sprint("flat/", tickets)
		if _, err := one.Join(t.Context(), mutex(queue, tickets*10+1)); err != nil {
			t.Fatal(err)
		}
		s.Do(fmt.Sprintf(`CALL interlock_v1_unfold('%[1]s');
			INSERT INTO interlock_tickets(queue, n, id, units, session, since, hold, flags)
				SELECT q.no, q.granted + seq + 1, UNHEX(LPAD(HEX(%[2]d000001 + seq), 32, '0')), 1, h.session, h.since, 0, 0
				FROM %[3]s numbers, interlock_queues q JOIN interlock_tickets h ON h.queue = q.no WHERE q.name = '%[1]s';
			UPDATE interlock_queues SET tickets = tickets + %[2]d, waiting = waiting + %[2]d, last = last + %[2]d WHERE name = '%[1]s';
			ANALYZE TABLE interlock_tickets`, queue, tickets, sequence(tickets)))
		const times = 20
		read := func() int { return s.Status(`handler\_read\_%`) }
		before := read()
		for n := range times {
			if _, err := one.Join(t.Context(), mutex(queue, tickets*1000+n+100)); err != nil {
				t.Fatal(err)
			}
		}
		joined := read()
		for n := range times {
			if err := one.Leave(t.Context(), driver.Ticket{Queue: queue, ID: newID(tickets*1000 + n + 100)}, true); err != nil {
				t.Fatal(err)
			}
		}
		return float64(joined-before) / times, float64(read()-joined) / times
	}
	few, fewLeave := rows(10)
	many, manyLeave := rows(10000)
	t.Logf("rows read: %.1f and %.1f for a Join, %.1f and %.1f for a Leave, among 10 and 10,000 tickets", few, many, fewLeave, manyLeave)
	if many > 2*few+10 || manyLeave > 2*fewLeave+10 {
		t.Error("the cost of a ticket grows with its queue")
	}
}
