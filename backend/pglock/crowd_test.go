package pglock_test

import (
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
	drivers, sessions := make([]driver.Driver, of), make([]driver.Session, of)
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
