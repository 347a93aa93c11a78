package mysqllock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/sqlqueue"
)

// account is what the holders of one lock say of themselves: one at a time, with tokens
// that grow.
type account struct {
	mu     sync.Mutex
	holder *interlock.Lease
	last   uint64
}

func (a *account) enter(l *interlock.Lease) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case l.Err() != nil: // lost meanwhile, and it knows
		return nil
	case a.holder != nil && a.holder.Err() == nil:
		return fmt.Errorf("held with the tokens %d and %d at once", a.holder.Token(), l.Token())
	case l.Token() <= a.last:
		return fmt.Errorf("the token %d after %d", l.Token(), a.last)
	}
	a.holder, a.last = l, l.Token()
	return nil
}

func (a *account) exit(l *interlock.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holder == l {
		a.holder = nil
	}
}

// cycles is how often each of the goroutines of a test holds: MYSQLLOCK_CYCLES times as
// often as by default.
func cycles(n int) int {
	if times, err := strconv.Atoi(os.Getenv("MYSQLLOCK_CYCLES")); err == nil {
		n *= times
	}
	return n
}

// contend has goroutines of several clients hold two locks in turn, some with a wait
// that is cut short, while disturb does what it does, each time after some have held.
func contend(t *testing.T, url string, ttl time.Duration, times int, disturb func()) {
	t.Helper()
	const clients, each = 4, 6
	var held, lost, disturbed atomic.Int64
	accounts := []*account{{}, {}}
	failed := make(chan error, clients*each+1)
	done := make(chan struct{})
	var workers sync.WaitGroup
	for range clients {
		c, err := interlock.Open(t.Context(), url, interlock.TTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		for i := range each {
			a := accounts[i%len(accounts)]
			lock := c.Mutex(fmt.Sprint("chaos/", i%len(accounts)), interlock.StrictOrder())
			workers.Go(func() {
				for n := 0; n < times; {
					wait, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					hasty := rand.IntN(8) == 0
					if hasty {
						wait, cancel = context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
					}
					l, err := lock.Acquire(wait)
					cancel()
					if hasty && err != nil {
						continue
					}
					if err == nil {
						err = a.enter(l)
					}
					if err != nil {
						failed <- err
						return
					}
					n++
					held.Add(1)
					a.exit(l)
					if err := l.Release(); errors.Is(err, interlock.ErrLost) {
						lost.Add(1)
					}
				}
			})
		}
	}
	all := make(chan struct{})
	go func() { workers.Wait(); close(all) }()
	var mischief sync.WaitGroup
	mischief.Go(func() {
		for {
			for before := held.Load(); held.Load() < before+10; {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
			}
			disturb()
			disturbed.Add(1)
		}
	})
	select {
	case <-all:
	case err := <-failed:
		t.Error(err)
	}
	close(done)
	mischief.Wait()
	t.Logf("%d grants, %d of them lost, %d disturbances", held.Load(), lost.Load(), disturbed.Load())
	if t.Failed() {
		t.FailNow()
	}
}

// Promise: connections that are killed or cut and statements that are interrupted, at
// any moment, leave one holder at a time, nobody waiting, and no row of a ticket.
func TestKilledConnections(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	proxy := mysqltest.NewProxy(t, s)
	contend(t, proxy.URL(), 10*time.Second, cycles(12), func() {
		switch rand.IntN(4) {
		case 0:
			s.KillConnections("user = 'app'")
		case 1: // those that wait for news, and nobody else
			s.KillConnections("user = 'app' AND info LIKE '%:anchor%'")
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
	contend(t, s.URL(), 1*time.Second, cycles(3), func() {
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
	s.Do("UPDATE interlock_meta SET longest = " + strconv.FormatInt(ttl.Microseconds(), 10))
	time.Sleep(2 * time.Second) // the log is written once a second
	contend(t, s.URL(), ttl, cycles(3), func() {
		time.Sleep(rand.N(100 * time.Millisecond))
		s.Kill()
		s.Restart()
	})
	// Tickets whose release was forgotten are in the way of nobody.
	c, err := interlock.Open(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 2 {
		if err := c.Mutex(fmt.Sprint("chaos/", i)).Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	nothingLeft(t, s)
}

// Promise: a server that has a binary log and does not wait for it may have forgotten
// grants when it comes back from a power loss: all sessions are ended, and nothing is
// granted until those who held have been told or have run out. One that waits for its
// binary log goes on as it was.
func TestServerThatDoesNotWaitForItsBinaryLog(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	for _, waits := range []string{"0", "1"} {
		s := mysqltest.Start(t, mysqltest.Config("log_bin", "binlog"), mysqltest.Config("server_id", "1"), mysqltest.Config("sync_binlog", waits))
		d := opened(t, s.URL())
		s.Do("UPDATE interlock_meta SET longest = " + strconv.FormatInt(time.Hour.Microseconds(), 10))
		a, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		r := driver.Request{ID: sqlqueue.NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
		held, err := a.Join(t.Context(), r)
		if err != nil || !held.Held {
			t.Fatal(held, err)
		}
		s.Kill()
		s.Restart()
		var kept []driver.Renewed
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
		b, err := d.Open(t.Context(), driver.SessionOptions{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		r.ID, r.NoWait = sqlqueue.NewID(), true
		if got, err := b.Join(t.Context(), r); !errors.Is(err, driver.ErrBusy) {
			t.Errorf("sync_binlog = 0: granted at once: %+v, %v", got, err)
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
