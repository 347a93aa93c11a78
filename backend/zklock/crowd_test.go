package zklock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: thousands stand in line, each is served in its turn, down to the very
// last, and what the server sends for a hand-off does not depend on how many they
// are. ZKLOCK_CROWD is how many, 300 otherwise.
func TestHandOffCostsTheSameInACrowd(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	n := repeated(t, "ZKLOCK_CROWD", 300)
	most := map[bool]int{false: n, true: n / 3}
	for _, robust := range []bool{false, true} {
		few, many := drained(t, s, 30, robust), drained(t, s, most[robust], robust)
		if many > 2*few { // a hand-off that takes long has more looks in it
			t.Errorf("robust %v: the server sends %d bytes per hand-off among %d waiters, and %d among 30", robust, many, most[robust], few)
		}
	}
}

// A counter counts the bytes that the server sends to a session, at a proxy,
// without lists of a queue that are read to watch it: a holder asks for one if it
// has held for some time, which depends on the machine.
type counter struct {
	*zktest.Proxy
	bytes   atomic.Int64
	watches map[int32]bool
}

func newCounter(t *testing.T, s *zktest.Server) *counter {
	c := &counter{Proxy: zktest.NewProxy(t, s.Addr), watches: map[int32]bool{}}
	c.Observe(func(f zktest.Frame) {
		switch {
		case !f.Reply && f.Op == zktest.OpGetChildren2 && f.Body[len(f.Body)-1] == 1:
			c.watches[f.Xid] = true
		case f.Reply && c.watches[f.Xid]:
			delete(c.watches, f.Xid)
		case f.Reply:
			c.bytes.Add(int64(f.Bytes))
		}
	})
	return c
}

// drained has n tickets of 50 sessions stand in line, serves them all, and returns
// how many bytes the server sent for each.
func drained(t *testing.T, s *zktest.Server, n int, robust bool) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(10*time.Minute))
	defer cancel()
	sessions, counters := make([]*driver.Opened, 50), make([]*counter, 50)
	sent := func() (sum int64) {
		for _, c := range counters {
			sum += c.bytes.Load()
		}
		return sum
	}
	var watcher driver.Driver
	for i := range sessions {
		counters[i] = newCounter(t, s)
		d, err := openURL(ctx, "zk://"+counters[i].Addr+"/crowds")
		noError(t, err)
		defer d.Close()
		if sessions[i], err = d.Open(ctx, driver.SessionOptions{TTL: 20 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		watcher = d
	}
	queue := fmt.Sprintf("of %d robust %v", n, robust)
	join := func(i int) (driver.Ticket, error) {
		r := aMutex(queue)
		r.ReportDeath = robust
		return sessions[i%len(sessions)].Join(ctx, r)
	}
	front, err := join(0)
	if err != nil || !front.Held {
		t.Fatalf("the first ticket: %+v, %v", front, err)
	}
	tickets := make([]driver.Ticket, n)
	atOnceAll(t, n, func(i int) (err error) {
		tickets[i], err = join(i)
		return err
	})
	var due []string // IDs in their order
	q := errtest.Must(watcher.Follow(ctx, queue, ""))(t)
	for _, m := range q.Members {
		due = append(due, m.ID)
	}

	var mu sync.Mutex
	served := []string{front.ID}
	var before int64
	began := time.Now()
	atOnceAll(t, n+1, func(i int) error {
		if i == n {
			busy.Until(t, "all watch the one in front", func() bool { return s.Figure("watch_count") >= float64(n) })
			untilQuiet(sent)
			before, began = sent(), time.Now()
			return sessions[0].Leave(ctx, front, true)
		}
		in := sessions[i%len(sessions)]
		got, err := in.Await(ctx, tickets[i])
		if err != nil {
			return fmt.Errorf("Await: %w", err)
		}
		if got.Inherited && robust {
			return fmt.Errorf("the holder before has died: %+v", got)
		}
		mu.Lock()
		served = append(served, got.ID)
		mu.Unlock()
		return in.Leave(ctx, got, true)
	})
	each := (sent() - before) / int64(n)
	t.Logf("%d waiters, robust %v: %d bytes per hand-off, %.0f hand-offs/s", n, robust, each, float64(n)/time.Since(began).Seconds())
	if !slices.Equal(served, due) {
		t.Errorf("%d tickets were not served in their order", n)
	}
	for _, s := range sessions {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	return each
}

// atOnceAll runs f n times at once.
func atOnceAll(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%d of %d: %v", i+1, n, err)
		}
	}
}

// untilQuiet waits until nobody is answered any more: all have their watches.
func untilQuiet(sent func() int64) {
	for last, quiet := int64(0), 0; quiet < 5; quiet++ {
		time.Sleep(50 * time.Millisecond)
		if now := sent(); now != last {
			last, quiet = now, 0
		}
	}
}
