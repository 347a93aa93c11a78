package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Shape is who competes for what: worker i uses client i modulo Clients, and name
// i modulo Names.
type Shape struct {
	Clients, Workers, Names int
	Hold, Think             time.Duration
}

var pairs = []Column{
	{Figure: "pairs/s"}, {Figure: "commands/grant", Decimals: 2}, {Figure: "transactions/grant", Decimals: 2},
	{Figure: "client CPU µs", Decimals: 1}, {Figure: "server CPU µs", Decimals: 1},
}

var handOffs = []Column{
	{Figure: "hand-offs/s"}, {Figure: "grants/s"}, {Figure: "commands/grant", Decimals: 2}, {Figure: "transactions/grant", Decimals: 2},
	{Figure: "gap p50 µs", Decimals: 1}, {Figure: "gap p99 µs", Decimals: 1}, {Figure: "p99/p50", Decimals: 1},
	{Figure: "fewest/most", Decimals: 2}, {Figure: "Jain", Decimals: 3},
	{Figure: "client CPU µs", Decimals: 1}, {Figure: "server CPU µs", Decimals: 1},
}

// worker is one goroutine that acquires and releases.
type worker struct {
	id      int
	lock    Lock
	arena   *arena
	s       Shape
	grants  int64           // within the time
	gaps    []time.Duration // of the hand-offs among them
	seen    *mistakes
	failure error
}

// work goes on until stop, and then until it has the lock once more or ctx ends.
func (w *worker) work(ctx context.Context, stop *atomic.Bool) {
	for !stop.Load() {
		h, err := w.lock(ctx)
		now := time.Now()
		if err != nil {
			w.failure = fmt.Errorf("acquire: %w", err)
			return
		}
		v, gap, handed, err := w.arena.enter(w.id, h, now)
		w.seen.note(err)
		if !stop.Load() {
			w.grants++
			if handed {
				w.gaps = append(w.gaps, gap)
			}
		}
		if w.s.Hold > 0 {
			time.Sleep(w.s.Hold)
		}
		w.seen.note(v.leave(time.Now()))
		if err := h.Release(); err != nil {
			w.failure = fmt.Errorf("release: %w", err)
			return
		}
		if w.s.Think > 0 {
			time.Sleep(w.s.Think)
		}
	}
}

func run(s Shape) func(ctx context.Context, c Contender, e Env) Result {
	return func(ctx context.Context, c Contender, e Env) Result {
		r, f := newResult(c, e), contest
		if c.Elsewhere != nil {
			f = contestElsewhere
		}
		if err := f(ctx, c, e, s, &r); err != nil {
			r.Failed = err.Error()
		}
		return r
	}
}

func contest(ctx context.Context, c Contender, e Env, s Shape, r *Result) error {
	clients, end, err := begin(ctx, c, s.Clients, ttl)
	if err != nil {
		return err
	}
	defer end()
	name := newName()
	arenas := make([]arena, s.Names)
	workers := make([]*worker, s.Workers)
	for i := range workers {
		at := i % s.Names
		workers[i] = &worker{id: i, s: s, seen: e.seen, arena: &arenas[at], lock: clients[i%s.Clients].Lock(fmt.Sprintf("%s/%d", name, at))}
	}
	// Connections are made and scripts are loaded before the clock runs.
	err = together(s.Workers, min(s.Workers, 64), func(i int) error {
		h, err := clients[i%s.Clients].Lock(fmt.Sprintf("%s/warm/%d", name, i))(ctx)
		if err != nil {
			return err
		}
		return h.Release()
	})
	if err == nil && s.Names < s.Workers {
		err = waitOnce(ctx, clients, s, name+"/once")
	}
	if err != nil {
		return err
	}

	var stop atomic.Bool
	began, err := e.cost(ctx)
	if err != nil {
		return err
	}
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(s.Workers))
	for _, w := range workers {
		mine, cancel := context.WithCancel(all) // as each request of a server has its own
		wg.Go(func() {
			defer cancel()
			w.work(mine, &stop)
			left.Add(-1)
		})
	}
	time.Sleep(e.Time)
	stop.Store(true)
	took, cpu, server, err := began.since(ctx)
	if err != nil {
		return err
	}
	late := time.AfterFunc(e.Limit, func() {
		if n := left.Load(); n > 0 {
			r.Stuck = fmt.Sprintf("%d of %d", n, s.Workers)
		}
		cancel()
	})
	wg.Wait()
	late.Stop()
	f := Figures{Took: took, CPU: cpu}
	for _, w := range workers {
		f.Each = append(f.Each, w.grants)
		f.Gaps = append(f.Gaps, w.gaps...)
		if w.failure != nil && r.Stuck == "" {
			f.Wrong = append(f.Wrong, w.failure.Error())
		}
	}
	summarize(r, f, server)
	return nil
}

// waitOnce has everybody wait for a moment: some open a connection for that.
// On ZooKeeper no other lock may be below that of the name.
func waitOnce(ctx context.Context, clients []Client, s Shape, name string) error {
	h, err := clients[0].Lock(name)(ctx)
	if err != nil {
		return err
	}
	released := make(chan error, 1)
	time.AfterFunc(warmth, func() { released <- h.Release() })
	err = together(s.Workers, s.Workers, func(i int) error {
		h, err := clients[i%s.Clients].Lock(name)(ctx)
		if err != nil {
			return err
		}
		return h.Release()
	})
	return errors.Join(<-released, err)
}

const warmth = 200 * time.Millisecond

func summarize(r *Result, f Figures, server Usage) {
	for _, wrong := range f.Wrong {
		r.wrong("%s", wrong)
	}
	var grants int64
	for _, n := range f.Each {
		grants += n
	}
	r.set("pairs/s", float64(grants)/f.Took.Seconds())
	r.set("grants/s", float64(grants)/f.Took.Seconds())
	r.set("hand-offs/s", float64(len(f.Gaps))/f.Took.Seconds())
	r.set("client CPU µs", micros(f.CPU)/float64(grants))
	if server.CPU > 0 {
		r.set("server CPU µs", micros(server.CPU)/float64(grants))
	}
	r.set("commands/grant", server.Commands/float64(grants))
	r.set("transactions/grant", server.Transactions/float64(grants))
	setGaps(r, f.Gaps)
	r.set("fewest/most", float64(slices.Min(f.Each))/float64(slices.Max(f.Each)))
	r.set("Jain", jain(f.Each))
}

func setGaps(r *Result, gaps []time.Duration) {
	if len(gaps) == 0 {
		return
	}
	slices.Sort(gaps)
	p50, p99 := gaps[len(gaps)/2], gaps[len(gaps)*99/100]
	r.set("gap p50 µs", micros(p50))
	r.set("gap p99 µs", micros(p99))
	r.set("p99/p50", float64(p99)/float64(p50))
}

// jain is Jain's index of fairness: 1 if all have got the same, 1/n if one has
// got everything.
func jain(each []int64) float64 {
	var sum, squares float64
	for _, x := range each {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	return sum * sum / (float64(len(each)) * squares)
}
