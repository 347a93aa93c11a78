package redislock_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

const crowdSize = 10_000

// effort counts the commands that scripts have run on the server, and the scripts.
func effort(t *testing.T, s *redistest.Server) (commands, scripts int) {
	t.Helper()
	for line := range strings.Lines(do(t, s, "INFO", "commandstats").(string)) {
		var calls int
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if _, err := fmt.Sscanf(rest, "%d,", &calls); !ok || err != nil {
			continue
		}
		switch name {
		case "evalsha", "eval":
			scripts += calls
		case "info", "ping":
		default:
			commands += calls
		}
	}
	return commands, scripts
}

// Promise: what an operation costs does not grow with the number of those who wait,
// be it at the end of the line, in the middle of it, or at its head.
func TestWorkDoesNotGrowWithTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), time.Hour)
	cost := map[int]int{}
	for _, n := range []int{10, crowdSize} {
		queue := fmt.Sprintf("of %d", n)
		held := errtest.Must(a.Join(t.Context(), request(queue, 1, 1)))(t)
		line := joinMany(t, a, n, func() driver.Request { return request(queue, 1, 1) })[n/2:]
		before, _ := effort(t, s)
		const rounds = 3
		for range rounds {
			errtest.Must(a.Join(t.Context(), request(queue, 1, 1)))(t) // at the end
			// Many joined at once, so that any of the line may have come first.
			line = slices.DeleteFunc(line, func(w driver.Ticket) bool { return w.ID == held.ID })
			noError(t, a.Leave(t.Context(), line[0], true)) // in the middle
			line = line[1:]
			noError(t, a.Leave(t.Context(), held, true)) // in front
			// Who is next depends on the order in which they came; the queue knows.
			held = first(t, s, queue)
		}
		after, _ := effort(t, s)
		cost[n] = (after - before) / rounds
		t.Logf("%d commands for three operations beside %d who wait", cost[n], n)
	}
	if cost[crowdSize] > cost[10]+10 {
		t.Errorf("three operations cost %d commands beside 10 who wait, and %d beside %d", cost[10], cost[crowdSize], crowdSize)
	}
}

// first is the ticket that holds, by what the queue says.
func first(t *testing.T, s *redistest.Server, queue string) driver.Ticket {
	t.Helper()
	d := errtest.Must(openURL(t.Context(), s.URL()))(t)
	defer d.Close()
	q, err := d.Follow(t.Context(), queue, "")
	if err != nil || len(q.Members) == 0 || !q.Members[0].Held {
		t.Fatalf("nobody holds %q: %v", queue, err)
	}
	return driver.Ticket{ID: q.Members[0].ID, Queue: queue}
}

// Promise: whatever happens, a script does a bounded amount of work: a writer that
// leaves thousands of readers behind, and thousands of dead waiters at the head.
func TestNoScriptDoesEverything(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	da, a := session(t, s.URL(), time.Hour)
	w := errtest.Must(a.Join(t.Context(), request("readers", driver.RWCapacity, driver.RWCapacity)))(t)
	readers := joinMany(t, a, crowdSize, func() driver.Request { return request("readers", 1, driver.RWCapacity) })

	_, dead := session(t, s.URL(), 5*time.Minute)
	errtest.Must(a.Join(t.Context(), request("dead", 1, 1)))(t)
	joinMany(t, dead, crowdSize/4, func() driver.Request { return request("dead", 1, 1) })
	last := errtest.Must(a.Join(t.Context(), request("dead", 1, 1)))(t)
	s.StepClock(10 * time.Minute) // the dead are over
	heaviest := func(what string, do func()) {
		t.Helper()
		commands, scripts := effort(t, s)
		do()
		c, n := effort(t, s)
		t.Logf("%s: %d commands in %d scripts", what, c-commands, n-scripts)
		// A hundred tickets are a few hundred commands.
		if most := 1000 * (n - scripts); c-commands > most || n-scripts < 20 {
			t.Errorf("%s: %d commands in %d scripts", what, c-commands, n-scripts)
		}
	}
	heaviest("10,000 readers let in", func() {
		noError(t, a.Leave(t.Context(), w, true))
		for _, r := range readers {
			awaited(t, a, r)
		}
	})
	heaviest("2,500 dead removed", func() {
		for began := time.Now(); ; { // until all of them are over
			q := errtest.Must(da.Follow(t.Context(), "dead", ""))(t)
			if len(q.Members) == 2 {
				noError(t, a.Leave(t.Context(), driver.Ticket{ID: q.Members[0].ID, Queue: "dead"}, true))
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%d tickets stand, though all but two are dead", len(q.Members))
			}
			time.Sleep(50 * time.Millisecond)
		}
		awaited(t, a, last)
		busy.Until(t, "the dead are removed", func() bool { return do(t, s, "ZCARD", "interlock:{dead}:e") == int64(1) })
	})
}

// Promise: what one script may not do alone goes on by itself, whatever has made room, and
// no heartbeat is waited for.
func TestWhatOneScriptLeavesUndoneGoesOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, way := range []struct {
		name string
		end  func(d driver.Driver, a *driver.Opened, w driver.Ticket) error
	}{
		{"Leave", func(_ driver.Driver, a *driver.Opened, w driver.Ticket) error { return a.Leave(t.Context(), w, true) }},
		{"Shrink", func(_ driver.Driver, a *driver.Opened, w driver.Ticket) error { return a.Shrink(t.Context(), w, 1) }},
		{"Force", func(d driver.Driver, _ *driver.Opened, w driver.Ticket) error {
			return d.Ask(t.Context(), w.Queue, w.ID, driver.Force)
		}},
		{"Close", func(_ driver.Driver, a *driver.Opened, _ driver.Ticket) error { return a.Close(t.Context()) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			d, a := session(t, s.URL(), time.Hour)
			_, b := session(t, s.URL(), time.Hour)
			w := errtest.Must(a.Join(t.Context(), request(way.name, driver.RWCapacity, driver.RWCapacity)))(t)
			readers := joinMany(t, b, 350, func() driver.Request { return request(way.name, 1, driver.RWCapacity) })
			noError(t, way.end(d, a, w))
			for _, r := range readers {
				awaited(t, b, r)
			}
		})
	}
}

// Promise: tickets whose time is over are gone, also if there are more of them than one
// script removes.
func TestRenewBringsBackNone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	_, a := session(t, s.URL(), time.Minute)
	all := joinMany(t, a, 350, func() driver.Request { return request("q", 1, driver.RWCapacity) })
	s.StepClock(2 * time.Minute)
	got := errtest.Must(a.Renew(t.Context(), all))(t)
	gone := 0
	for _, r := range got {
		if r.State == driver.Gone {
			gone++
		}
	}
	if gone != len(all) {
		t.Errorf("%d of %d tickets whose time was over are gone", gone, len(all))
	}
}

func TestRenewalsInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	t.Run("ten thousand leases", func(t *testing.T) { renewalOfTenThousandLeases(t, c) })
	t.Run("a node that pauses", func(t *testing.T) { renewalOutlastsAPauseOfItsNode(t, c) })
	t.Run("a dead node", func(t *testing.T) { deadNodeDoesNotKeepTheAnswersOfOthersBack(t, c) })
}

// Promise: ten thousand leases are renewed in a few pipelines.
func renewalOfTenThousandLeases(t *testing.T, c *redistest.Cluster) {
	d, a := session(t, "redis://"+strings.Join(c.Addrs(), ","), 2*time.Minute)
	n := 0
	var mu sync.Mutex
	known := joinMany(t, a, crowdSize, func() driver.Request {
		mu.Lock()
		defer mu.Unlock()
		n++
		return request(fmt.Sprintf("q%d", n), 1, 1)
	})
	before, began := d.Exchanges(), time.Now()
	answer, err := a.Renew(t.Context(), known)
	took := time.Since(began)
	if err != nil || len(answer) != len(known) {
		t.Fatalf("Renew of %d answers for %d: %v", len(known), len(answer), err)
	}
	for _, r := range answer {
		if r.State != driver.Kept {
			t.Fatalf("Renew: %+v", r)
		}
	}
	if used := d.Exchanges() - before; used > 100 {
		t.Errorf("%d renewals took %d exchanges", len(known), used)
	}

	// A dead shard loses only its own, and is lost only for them.
	dead := c.Nodes[1]
	dead.Pause()
	defer dead.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), max(5*time.Second, 10*took))
	defer cancel()
	answer, err = a.Renew(ctx, known)
	if err != nil {
		t.Fatalf("Renew with one of three shards dead: %v", err)
	}
	kept := map[string]bool{}
	for _, r := range answer {
		if r.State != driver.Kept {
			t.Fatalf("Renew with one of three shards dead: %+v", r)
		}
		kept[r.Queue] = true
	}
	for i := range 20 {
		name := fmt.Sprintf("q%d", i+1)
		if mine := c.Owner(name) == dead; kept[name] == mine {
			t.Errorf("%q is on the dead shard: %v, renewed: %v", name, mine, kept[name])
		}
	}
	if len(answer) < len(known)/2 {
		t.Errorf("only %d of %d renewed with one of three shards dead", len(answer), len(known))
	}
	t.Logf("%d of %d renewed with one of three shards dead", len(answer), len(known))
}

// Promise: in a Cluster too, a node that is late costs a heartbeat no more than that time.
func renewalOutlastsAPauseOfItsNode(t *testing.T, c *redistest.Cluster) {
	const ttl = 3 * time.Second
	_, a := session(t, "redis://"+strings.Join(c.Addrs(), ","), ttl)
	held := joined(t, a, exclusive("pause"), true)
	node := c.Owner("pause")
	node.Pause()
	resume := time.AfterFunc(ttl/4, node.Resume)
	defer resume.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	defer cancel()
	answer, err := a.Renew(ctx, []driver.Ticket{held})
	if err != nil || len(answer) != 1 || answer[0].State != driver.Kept {
		t.Fatalf("Renew while the only node that it asks is paused for a quarter of the TTL: %+v, %v", answer, err)
	}
}

// Promise: in a Cluster a dead node does not keep the answers of the others back: their
// leases would have little time left.
func deadNodeDoesNotKeepTheAnswersOfOthersBack(t *testing.T, c *redistest.Cluster) {
	const ttl = 18 * time.Second
	_, a := session(t, "redis://"+strings.Join(c.Addrs(), ",")+"?"+patient, ttl)
	var known []driver.Ticket
	for _, node := range c.Nodes[:2] {
		name := "dead"
		for i := 0; c.Owner(name) != node; i++ {
			name = fmt.Sprintf("dead%d", i)
		}
		tk := joined(t, a, exclusive(name), true)
		known = append(known, tk)
	}
	queued := request("queued", 1, driver.RWCapacity) // asked about by a pipeline of its own
	for i := 0; c.Owner(queued.Queue) != c.Nodes[1]; i++ {
		queued.Queue = fmt.Sprintf("queued%d", i)
	}
	tk := joined(t, a, queued, true)
	known = append(known, tk)
	// The scripts of renewals are not known to the nodes yet.
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	defer cancel()
	began := time.Now()
	answer, err := a.Renew(ctx, known)
	if took := time.Since(began); err != nil || took > ttl/2 {
		t.Errorf("Renew with a dead node: %v, after %v", err, took)
	}
	for i, tk := range known {
		kept := slices.ContainsFunc(answer, func(r driver.Renewed) bool { return r.ID == tk.ID && r.State == driver.Kept })
		if kept != (i > 0) {
			t.Errorf("%s: renewed %v, with a dead node that has only the first: %+v", tk.Queue, kept, answer)
		}
	}
}

// Promise: a lease does not end sooner because the script that finds another in
// line behind it was slow. Here the script has the remains of a lost queue to remove.
func TestASlowScriptTakesNothingFromTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = time.Hour // nothing renews it, and a busy machine takes long for what follows
	_, a := session(t, s.URL(), ttl)
	_, b := session(t, s.URL(), ttl)
	warm(t, b)
	held := errtest.Must(a.Join(t.Context(), exclusive("q")))(t)
	for range 16 { // each is answered soon
		do(t, s, "EVAL", `local n = redis.call('ZCARD', KEYS[1]); for i = n + 1, n + 25000 do redis.call('ZADD', KEYS[1], i, i) end`, "1", "interlock:{q}:w")
	}
	end, ok := do(t, s, "EVAL", `
		local now = redis.call('TIME')
		local left = redis.call('PTTL', 'q')
		return now[1] * 1000000 + now[2] + left * 1000 - now[2] % 1000`, "0").(int64)
	if !ok {
		t.Fatal("the end of the lone ticket is unknown")
	}
	began := time.Now()
	errtest.Must(b.Join(t.Context(), exclusive("q")))(t)
	took := time.Since(began)
	score, ok := do(t, s, "ZSCORE", "interlock:{q}:e", held.ID).(string)
	if !ok {
		t.Fatal("the ticket in front has no end")
	}
	got := errtest.Must(strconv.ParseFloat(score, 64))(t)
	if lost := time.Duration(end-int64(got)) * time.Microsecond; lost > 0 {
		t.Errorf("the lease in front ends %v sooner after a Join that took %v", lost, took)
	}
}

// Promise: everybody who watches a cell is told at once.
func TestManyWatchersAreTold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const n = 120
	dd := make([]driver.Driver, n)
	var wg sync.WaitGroup
	for i := range dd {
		wg.Go(func() { dd[i], _ = session(t, s.URL(), time.Second) })
	}
	wg.Wait()
	c := errtest.Must(dd[0].Swap(t.Context(), driver.Swap{ID: exclusive("").ID, Name: "c", Value: []byte("a")}))(t)
	woke := make(chan time.Duration, n)
	var began time.Time
	for _, d := range dd {
		go func() {
			if _, err := d.Watch(t.Context(), "c", c.Version); err != nil {
				return
			}
			woke <- time.Since(began)
		}()
	}
	for do(t, s, "ZCARD", "interlock:{c}:cf") != int64(n) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	began = time.Now()
	errtest.Must(dd[0].Swap(t.Context(), driver.Swap{ID: exclusive("").ID, Name: "c", Version: c.Version, Value: []byte("b")}))(t)
	for i := range n {
		select {
		case <-woke:
		case <-time.After(10 * time.Second): // later each looks by itself
			t.Fatalf("%d of %d were told", i, n)
		}
	}
}

// Promise: a ticket with a fixed end costs nothing once it is over.
func TestFixedTicketsThatAreOverAreForgotten(t *testing.T) {
	s := redistest.Start(t)
	const ttl = 100 * time.Millisecond
	_, a := session(t, s.URL(), ttl)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	batch := func(k int) {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for j := range 100 {
					r := exclusive(fmt.Sprintf("q%d-%d", i, j))
					r.Hold = time.Millisecond
					if _, err := a.Join(t.Context(), r); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		for range 6 {
			time.Sleep(ttl)
			errtest.Must(a.Renew(t.Context(), nil))(t)
		}
	}
	batch(0)
	base := heap()
	for k := range 2 {
		batch(k)
		t.Logf("heap %+d after %d more", int64(heap())-int64(base), 5000*(k+1))
	}
	if grown := int64(heap()) - int64(base); grown > 3<<19 {
		t.Errorf("10,000 leases of a fixed time that are over cost %d bytes each, for ever", grown/10000)
	}
}

// What an acquire and a release allocate is what the collector has to free while others wait.
func TestAllocationsOfAPair(t *testing.T) {
	c := errtest.Must(interlock.Open(t.Context(), redistest.Start(t).URL()))(t)
	defer c.Close()
	lock := c.Mutex("m")
	pair := func() {
		lease, err := lock.Acquire(t.Context())
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const most = 10
	if n := testing.AllocsPerRun(1000, pair); n > most+1 {
		t.Errorf("an acquire and a release allocate %v times, more than %d", n, most)
	}
}
