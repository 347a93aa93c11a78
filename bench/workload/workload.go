package workload

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

// Workload is one thing that locks are used for.
type Workload struct {
	Name    string
	What    string
	Columns []Column // the first is the one that is compared
	Checks  []string // what the table says of correctness
	Timed   bool     // it runs for Env.Time
	run     func(ctx context.Context, c Contender, e Env) Result
}

// Env is where a workload runs and how long.
type Env struct {
	Backend string
	Server  Server
	Time    time.Duration // of the workloads that run for a time
	Limit   time.Duration // for those who wait to get the lock at last
	Grace   time.Duration // how much longer than its time and limits a workload may take
	Waiters int           // W5
	Clients int           // W5: of which there are at most so many
	Leases  int           // W8
	Settle  time.Duration // W5: how long the crowd waits before the release

	seen *mistakes
}

// What is checked.
const (
	Exclusion = "exclusion"  // two never hold at a time, tokens grow
	Served    = "all served" // nobody is left waiting
	Order     = "order"      // who came first was served first
	Kept      = "kept"       // no lock was lost
)

// ttl is what contenders are opened with, where nobody dies.
const ttl = 15 * time.Second

// All lists the workloads in order.
func All() []Workload {
	return []Workload{
		{Name: "W1", What: "one goroutine, one name: acquire and release", run: run(Shape{Clients: 1, Workers: 1, Names: 1}),
			Timed: true, Columns: pairs, Checks: []string{Exclusion}},
		{Name: "W2", What: "64 goroutines of one client, each its own name", run: run(Shape{Clients: 1, Workers: 64, Names: 64}),
			Timed: true, Columns: pairs, Checks: []string{Exclusion}},
		{Name: "W3", What: "64 goroutines of one client, one name, empty critical section", run: run(Shape{Clients: 1, Workers: 64, Names: 1}),
			Timed: true, Columns: handOffs, Checks: []string{Exclusion, Served}},
		{Name: "W4", What: "16 clients with connections of their own, one name, empty critical section", run: run(Shape{Clients: 16, Workers: 16, Names: 1}),
			Timed: true, Columns: handOffs, Checks: []string{Exclusion, Served}},
		{Name: "W4-hold", What: "as W4, each holds for 1 ms and thinks for 1 ms",
			run:   run(Shape{Clients: 16, Workers: 16, Names: 1, Hold: time.Millisecond, Think: time.Millisecond}),
			Timed: true, Columns: handOffs, Checks: []string{Exclusion, Served}},
		{Name: "W5", What: "clients wait for one name and are drained to the very last one", run: drain,
			Columns: drained, Checks: []string{Exclusion, Order, Served}},
		{Name: "W8", What: "one client keeps many leases alive: what that costs per TTL", run: keepAlive,
			Columns: alive, Checks: []string{Kept}},
		{Name: "W9", What: "a holder is killed by SIGKILL: when the next one holds", run: death,
			Columns: killed, Checks: []string{Exclusion, Served}},
	}
}

// newName makes a name that nobody has used.
func newName() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return "bench/" + hex.EncodeToString(b[:])
}

// begin opens so many clients, and returns what closes them. The end of ctx closes
// them, too: that may end a call that does not know its context.
func begin(ctx context.Context, c Contender, n int, ttl time.Duration) (clients []Client, end func(), err error) {
	clients = make([]Client, n)
	shut := sync.OnceFunc(func() {
		together(n, 32, func(i int) error {
			if clients[i] == nil {
				return nil
			}
			return clients[i].Close()
		})
	})
	err = together(n, 32, func(i int) (err error) {
		clients[i], err = c.Open(ctx, Options{TTL: ttl, Clients: n})
		return err
	})
	if err != nil {
		shut()
		return nil, nil, err
	}
	unused := context.AfterFunc(ctx, shut)
	return clients, func() { unused(); shut() }, nil
}

// together calls f(0) to f(n-1), at most so many at a time, and returns one of
// their errors.
func together(n, most int, f func(i int) error) error {
	next := make(chan int)
	errs := make(chan error, most)
	for range most {
		go func() {
			var first error
			for i := range next {
				if err := f(i); err != nil && first == nil {
					first = err
				}
			}
			errs <- first
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	var one error
	for range most {
		if err := <-errs; err != nil {
			one = err
		}
	}
	return one
}

func newResult(c Contender, e Env) Result {
	return Result{Backend: e.Backend, Contender: c.Name, Ours: c.Ours}
}

// cost is what process and server have used since it was made.
type cost struct {
	e      Env
	at     time.Time
	cpu    time.Duration
	server Usage
}

func (e Env) cost(ctx context.Context) (cost, error) {
	u, err := e.Server.Usage(ctx)
	return cost{e, time.Now(), cpuTime(), u}, err
}

func (c cost) since(ctx context.Context) (took, cpu time.Duration, server Usage, err error) {
	took, cpu = time.Since(c.at), cpuTime()-c.cpu
	u, err := c.e.Server.Usage(ctx)
	return took, cpu, u.sub(c.server), err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
