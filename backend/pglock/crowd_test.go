package pglock_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: all who stand in a long line are served in their order, down to the very
// last, also if they have waited for long, and each costs a bounded number of
// exchanges: its Join, its Leave, and few more. PGLOCK_WAITERS makes it longer.
func TestLongLine(t *testing.T) {
	t.Parallel()
	n := scaled("PGLOCK_WAITERS", 200)
	s := pgtest.Start(t)
	const of = 5 // clients
	drivers, sessions := make([]driver.Driver, of), make([]*driver.Opened, of)
	for i := range of {
		drivers[i] = opened(t, s.URL())
		sessions[i] = short(t, drivers[i], 10*time.Minute)
	}
	exchanges := func() (sum uint64) {
		for _, d := range drivers {
			sum += d.Exchanges()
		}
		return sum
	}
	onlooker := opened(t, s.URL()) // whose exchanges do not count
	front := join(t, sessions[0], request("q", 1))
	began := exchanges()
	var mu sync.Mutex
	var served []string
	var all sync.WaitGroup
	for i := range n {
		in := sessions[i%of]
		all.Go(func() {
			k, err := in.Join(t.Context(), request("q", 1))
			if err == nil && !k.Held {
				k, err = in.Await(t.Context(), k)
			}
			mu.Lock()
			served = append(served, k.ID)
			mu.Unlock()
			if err == nil {
				err = in.Leave(t.Context(), k, true)
			}
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		})
	}
	var line []string
	until(t, "all stand in line", func() bool {
		q, err := onlooker.Follow(t.Context(), "q", "")
		noError(t, err)
		line = line[:0]
		for _, m := range q.Members[1:] {
			line = append(line, m.ID)
		}
		return len(line) == n
	})
	quiet := exchanges()
	until(t, "one connection listens, for all of this process", func() bool { return len(s.Backends(listen)) == 1 })
	last := exchanges()
	until(t, "nobody asks any more", func() bool {
		time.Sleep(time.Second)
		now := exchanges()
		same := now == last
		last = now
		return same
	})
	noError(t, sessions[0].Leave(t.Context(), front, true))
	started := time.Now()
	all.Wait()
	took := time.Since(started)
	each := float64(exchanges()-began) / float64(n)
	t.Logf("%d waiters in %v; %.2f exchanges each, %d of all while they stood in line", n, took, each, last-quiet)
	if !slices.Equal(served, line) {
		t.Error("not in their order")
	}
	if each > 6 {
		t.Errorf("%.2f exchanges for each waiter", each)
	}
}

// Promise: of those who come to a line and of those who give up, whatever their client, one at
// a time stands before a holder who releases.
func TestAReleaseDoesNotQueueBehindACrowd(t *testing.T) {
	t.Parallel()
	const clients, waiters = 4, 3
	s := pgtest.Start(t)
	holder := session(t, opened(t, s.URL()+"&application_name=holder"))
	held := acquire(t, holder, "stuck", 1)
	type waiter struct {
		driver.Session
		stands driver.Ticket
	}
	var crowd []waiter
	for i := range clients {
		in := session(t, opened(t, s.URL()+fmt.Sprint("&application_name=crowd", i)))
		crowd = append(crowd, waiter{in, join(t, in, request("stuck", 1))})
	}
	unlock := lockRows(t, s)
	var all sync.WaitGroup
	call := func(do func() error) {
		all.Go(func() {
			if err := do(); err != nil {
				t.Error(err)
			}
		})
	}
	for _, w := range crowd {
		call(func() error { return w.Leave(t.Context(), w.stands, true) })
		for range waiters - 1 {
			call(func() error { _, err := w.Join(t.Context(), request("stuck", 1)); return err })
		}
	}
	waiting := func(where string) int { return len(s.Backends("wait_event_type = 'Lock' AND " + where)) }
	until(t, "the crowd waits", func() bool { return waiting("true") == clients*waiters })
	if n := waiting("wait_event <> 'advisory'"); n != 2 {
		t.Errorf("%d of %d wait for the row, want one who joins and one who leaves", n, clients*waiters)
	}
	call(func() error { return holder.Leave(t.Context(), held, true) })
	until(t, "the release waits for the row", func() bool { return waiting("application_name = 'holder' AND wait_event <> 'advisory'") == 1 })
	unlock()
	all.Wait()
}
