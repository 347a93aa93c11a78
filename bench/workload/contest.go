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
type Shape struct{ Clients, Workers, Names int }

// Figures are what workers have done.
type Figures struct {
	Took  time.Duration
	Each  []int64         // grants of every worker within the time
	Gaps  []time.Duration // of each hand-off
	Pairs []time.Duration // of each acquire and release, if there is one worker
	Stuck int             // were still waiting when the limit was reached
	Wrong []string        // what a lock must never do, and errors
}

// turns says how a worker comes to its next lock, and what that protects. Who asks for it once has turns of one worker.
type turns func(c Client, name string, worker int) func() (Lock, place)

// contest has workers compete, or another process have its own do so.
func contest(s Shape, next func() turns) func(context.Context, Contender, Env, *Result) error {
	return func(ctx context.Context, c Contender, e Env, r *Result) (err error) {
		var f Figures
		if c.Compete != nil {
			f, err = c.Compete(ctx, s, max(e.Time, c.Least), e.Limit)
		} else {
			f, err = c.compete(ctx, s, next(), max(e.Time, c.Least), e.Limit)
		}
		if err != nil {
			return err
		}
		for _, wrong := range f.Wrong {
			r.wrong("%s", wrong)
		}
		if f.Stuck > 0 {
			r.Stuck = fmt.Sprintf("%d of %d", f.Stuck, s.Workers)
		}
		var grants int64
		for _, n := range f.Each {
			grants += n
		}
		r.set(Pairs, float64(grants)/f.Took.Seconds())
		r.set(HandOffs, float64(len(f.Gaps))/f.Took.Seconds())
		r.set(Fairness, float64(slices.Min(f.Each))/float64(slices.Max(f.Each)))
		if n := len(f.Pairs); n > 0 {
			slices.Sort(f.Pairs)
			r.set(PairP50, micros(f.Pairs[n/2]))
			r.set(PairP99, micros(f.Pairs[n*99/100]))
		}
		if n := len(f.Gaps); n > 0 {
			slices.Sort(f.Gaps)
			r.set(GapP50, micros(f.Gaps[n/2]))
			r.set(GapP99, micros(f.Gaps[n*99/100]))
		}
		return nil
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// worker is one goroutine that acquires and releases.
type worker struct {
	id     int
	next   func() (Lock, place)
	grants int64           // within the time
	gaps   []time.Duration // of the hand-offs among them
	alone  bool
	pairs  []time.Duration // if it is alone
	wrong  []string
}

// work goes on until stop, and then until it has the lock once more or ctx ends.
func (w *worker) work(ctx context.Context, stop *atomic.Bool) {
	for !stop.Load() {
		began := time.Now()
		lock, place := w.next()
		h, err := lock(ctx)
		now := time.Now()
		if err != nil {
			if ctx.Err() == nil {
				w.note(fmt.Errorf("acquire: %w", err))
			}
			return
		}
		gap, handed, err := place.enter(w.id, h.Token, now)
		w.note(err)
		if !stop.Load() {
			w.grants++
			if handed {
				w.gaps = append(w.gaps, gap)
			}
		}
		w.note(place.leave(w.id, time.Now()))
		if err := h.Release(); err != nil {
			w.note(fmt.Errorf("release: %w", err))
			return
		}
		if w.alone {
			w.pairs = append(w.pairs, time.Since(began))
		}
	}
}

func (w *worker) note(err error) {
	if err != nil && len(w.wrong) < enough {
		w.wrong = append(w.wrong, err.Error())
	}
}

// compete has workers compete for so long. Then each has until the limit to get
// the lock once more.
func (c Contender) compete(ctx context.Context, s Shape, next turns, d, limit time.Duration) (f Figures, err error) {
	clients, end, err := open(ctx, c, s.Clients)
	if err != nil {
		return f, err
	}
	defer end()
	name := newName()
	lock := func(i int, of string) Lock { return clients[i%s.Clients].Lock(fmt.Sprintf("%s/%s", name, of)) }
	workers := make([]*worker, s.Workers)
	for i := range workers {
		workers[i] = &worker{id: i, alone: s.Workers == 1, next: next(clients[i%s.Clients], fmt.Sprintf("%s/%d", name, i%s.Names), i)}
	}
	// Connections are made and scripts are loaded before the clock runs.
	err = Together(s.Workers, s.Workers, func(i int) error { return once(ctx, lock(i, fmt.Sprintf("warm/%d", i))) })
	if err == nil && s.Names < s.Workers {
		err = waitOnce(ctx, s.Workers, func(i int) Lock { return lock(i, "once") })
	}
	if err != nil {
		return f, err
	}

	var stop atomic.Bool
	var left atomic.Int64
	left.Store(int64(s.Workers))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	began := time.Now()
	for _, w := range workers {
		mine, cancel := context.WithCancel(ctx) // as each request of a server has its own
		all.Go(func() {
			defer cancel()
			w.work(mine, &stop)
			left.Add(-1)
		})
	}
	time.Sleep(d)
	stop.Store(true)
	f.Took = time.Since(began)
	late := time.AfterFunc(limit, func() {
		f.Stuck = int(left.Load())
		cancel()
	})
	all.Wait()
	late.Stop()
	for _, w := range workers {
		f.Each = append(f.Each, w.grants)
		f.Gaps = append(f.Gaps, w.gaps...)
		f.Pairs = append(f.Pairs, w.pairs...)
		f.Wrong = append(f.Wrong, w.wrong...)
	}
	return f, nil
}

// waitOnce has everybody wait for a moment: some open a connection for that.
func waitOnce(ctx context.Context, n int, lock func(i int) Lock) error {
	h, err := lock(0)(ctx)
	if err != nil {
		return err
	}
	released := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() { released <- h.Release() })
	err = Together(n, n, func(i int) error { return once(ctx, lock(i)) })
	return errors.Join(<-released, err)
}
