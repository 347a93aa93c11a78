package workload

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"
)

// Workload is one thing that locks are used for.
type Workload struct {
	Name    string
	What    string
	Figures []string // the columns of its table
	run     func(ctx context.Context, c Contender, e Env, r *Result) error
}

// Env says how long a workload runs, and how large it is.
type Env struct {
	Time    time.Duration // all but W5
	Limit   time.Duration // for those who wait to get the lock at last
	Waiters int           // W5
}

// The figures.
const (
	Pairs    = "pairs/s"     // acquire and release
	PairP50  = "pair p50 µs" // with one worker
	PairP99  = "pair p99 µs"
	HandOffs = "hand-offs/s" // grants to another worker than the last one
	GapP50   = "gap p50 µs"  // from just before a release to the next owner's return from its acquire
	GapP99   = "gap p99 µs"
	Fairness = "fewest/most" // grants of the worker with the fewest, and of the one with the most
	DrainS   = "drain s"
)

// All lists the workloads in order.
func All() []Workload {
	contended := []string{HandOffs, Pairs, GapP50, GapP99, Fairness}
	return []Workload{
		{Name: "W1", What: "one goroutine, one name: acquire and release", Figures: []string{Pairs},
			run: contest(Shape{Clients: 1, Workers: 1, Names: 1}, alone)},
		{Name: "W2", What: "64 goroutines of one client, each its own name", Figures: []string{Pairs},
			run: contest(Shape{Clients: 1, Workers: 64, Names: 64}, alone)},
		{Name: "W3", What: "64 goroutines of one client, one name, empty critical section", Figures: contended,
			run: contest(Shape{Clients: 1, Workers: 64, Names: 1}, alone)},
		{Name: "W4", What: "16 clients with connections of their own, one name, empty critical section", Figures: contended,
			run: contest(Shape{Clients: 16, Workers: 16, Names: 1}, alone)},
		{Name: "W5", What: "clients wait for one name: until the last of them has had it", Figures: []string{DrainS},
			run: drain},
		{Name: "W6", What: "16 clients, one read-write lock: each writes once in twenty times", Figures: []string{Pairs, Fairness},
			run: contest(Shape{Clients: 16, Workers: 16, Names: 1}, reading)},
		{Name: "W7", What: "64 clients, one semaphore with 8 permits", Figures: []string{Pairs, Fairness},
			run: contest(Shape{Clients: 64, Workers: 64, Names: 1}, sharing)},
		{Name: "W10", What: "64 goroutines of one client, each name used once", Figures: []string{Pairs},
			run: contest(Shape{Clients: 1, Workers: 64, Names: 64}, onceEach)},
	}
}

// Takes reports whether a contender takes part.
func (w Workload) Takes(c Contender) bool {
	switch w.Name {
	case "W1", "W2", "W3", "W4":
		return true
	case "W10":
		return c.Compete == nil
	}
	return slices.Contains(c.Also, w.Name)
}

// alone has workers with the same name hold one after the other.
func alone() turns {
	arenas := map[string]*arena{}
	return func(c Client, name string, _ int) func() (Lock, place) {
		lock, a := c.Lock(name), arenas[name]
		if a == nil {
			a = &arena{}
			arenas[name] = a
		}
		return func() (Lock, place) { return lock, a }
	}
}

// reading is W6.
func reading() turns {
	hall := &room{space: 1 << 32}
	return func(c Client, name string, worker int) func() (Lock, place) {
		read, write := c.Readers(name)
		return func() (Lock, place) {
			if worker++; worker%20 == 0 {
				return write, seat{hall, hall.space}
			}
			return read, seat{hall, 1}
		}
	}
}

// sharing is W7.
func sharing() turns {
	hall := &room{space: 8}
	return func(c Client, name string, _ int) func() (Lock, place) {
		lock := c.Slot(name, int(hall.space))
		return func() (Lock, place) { return lock, seat{hall, 1} }
	}
}

// onceEach is W10.
func onceEach() turns {
	return func(c Client, name string, _ int) func() (Lock, place) {
		n := 0
		return func() (Lock, place) {
			n++
			return c.Lock(fmt.Sprintf("%s/%d", name, n)), &arena{}
		}
	}
}

// ttl is what contenders are opened with.
const ttl = 15 * time.Second

// grace is how much longer than its time and limits a contender may take in all.
const grace = 2 * time.Minute

// farewell is how long a contender may take to return once its context has ended.
const farewell = 30 * time.Second

// Run has the contender do it. One that comes to no end is left behind.
func (w Workload) Run(ctx context.Context, c Contender, e Env) Result {
	r := Result{Workload: w.Name, Contender: c.Name, Ours: c.Ours}
	patience := max(e.Time, c.Least) + 2*e.Limit + grace
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done := make(chan Result, 1)
	go func() {
		r := r
		if err := w.run(ctx, c, e, &r); err != nil {
			r.Failed = err.Error()
		}
		done <- r
	}()
	select {
	case r = <-done:
	case <-time.After(patience + farewell):
		r.Failed = fmt.Sprintf("it was not through after %v", patience+farewell)
	}
	return r
}

// newName makes a name that nobody has used.
func newName() string { return "bench/" + rand.Text()[:12] }

// open opens so many clients, and returns what closes them.
func open(ctx context.Context, c Contender, n int) (clients []Client, end func(), err error) {
	clients = make([]Client, n)
	end = func() {
		_ = Together(n, 32, func(i int) error {
			if clients[i].Close == nil {
				return nil
			}
			return clients[i].Close()
		})
	}
	err = Together(n, 32, func(i int) (err error) {
		clients[i], err = c.Open(ctx, Options{TTL: ttl, Clients: n})
		return err
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return clients, end, nil
}

// once acquires and releases.
func once(ctx context.Context, lock Lock) error {
	h, err := lock(ctx)
	if err != nil {
		return err
	}
	return h.Release()
}

// Together calls f(0) to f(n-1), at most so many at a time, and returns one of
// their errors.
func Together(n, most int, f func(i int) error) error {
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
