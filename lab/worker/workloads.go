package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/lab/history"
)

// All is every workload.
var All = []Workload{
	{Name: "mutex", About: "a mutex, with all options in turn", Step: mutex},
	{Name: "reentrant", About: "a mutex that its holder acquires again", Step: reentrant},
	{Name: "rw", About: "readers, writers, and writers that become readers", Step: readersAndWriters},
	{Name: "semaphore", About: "permits, of which some are given back early", Step: semaphore, Rich: true},
	{Name: "resized", About: "permits whose number changes", Step: resized, Rich: true},
	{Name: "fair", About: "a mutex in strict order, whose queue is watched", Step: fair},
	{Name: "election", About: "one of all leads", Step: election},
	{Name: "multi", About: "two locks as one, on two backends if there are two", Step: multi},
	{Name: "fenced", About: "a counter at a resource that checks tokens", Step: fenced},
	{Name: "unfenced", About: "the same without tokens: processes that stand still may lose updates", Step: unfenced},
	{Name: "once", About: "work that takes effect once for each key", Step: oncePerKey},
	{Name: "latch", About: "a latch that several count down", Step: latch, Rich: true},
	{Name: "barrier", About: "a double barrier", Step: barrier, Rich: true},
	{Name: "value", About: "compare and swap of a value", Step: value, Rich: true},
}

func (e *Env) options() []interlock.Option {
	return [][]interlock.Option{
		nil, nil, {interlock.StrictOrder()}, {interlock.ReportDeath()},
		{interlock.Sticky()}, {interlock.Note("the lab")},
	}[e.IntN(6)]
}

func mutex(e *Env) {
	name := e.name("mutex")
	e.use(e.Client.Mutex(name, e.options()...), name, 1, 1)
}

func reentrant(e *Env) {
	name := e.name("reentrant")
	l := e.Client.Mutex(name, interlock.Reentrant())
	g := e.acquire(l, name, 1, 1)
	if g == nil {
		return
	}
	ctx, free := g.Bind(e.Stopped)
	if inner, err := l.Acquire(ctx); err == nil {
		g.witness()
		_ = inner.Release()
		g.hold(time.Millisecond)
	}
	free()
	g.end()
}

const readers = 1 << 30

func readersAndWriters(e *Env) {
	name := e.name("rw")
	rw := e.Client.RWMutex(name, e.options()...)
	if e.IntN(3) > 0 {
		e.use(rw.Reader(), name, 1, readers)
		return
	}
	g := e.acquire(rw.Writer(), name, readers, readers)
	if g == nil {
		return
	}
	g.work()
	if e.IntN(2) == 0 {
		g.change(1, g.Downgrade)
		g.work()
	}
	g.end()
}

func semaphore(e *Env) {
	name, weight := e.name("semaphore"), 1+e.Int64N(5)
	g := e.acquire(e.Client.Semaphore(name, 5, interlock.Weight(weight)), name, weight, 5)
	if g == nil {
		return
	}
	g.work()
	if weight > 1 && e.IntN(2) == 0 {
		keep := 1 + e.Int64N(weight-1)
		g.change(keep, func(ctx context.Context) error { return g.KeepPermits(ctx, keep) })
		g.work()
	}
	g.end()
}

func resized(e *Env) {
	name := fmt.Sprintf("resized/%d", e.Now()/int64(e.Epoch))
	if e.IntN(10) == 0 {
		n := 1 + e.Int64N(5)
		e.call(history.Event{Op: "permits", Object: name, Units: n}, true,
			func(ctx context.Context) (history.Event, error) {
				return history.Event{}, e.Client.Admin().SetPermits(ctx, name, n)
			})
		return
	}
	e.use(e.Client.Semaphore(name, 3), name, 1, 3)
}

func fair(e *Env) {
	name := e.name("fair")
	g := e.acquire(e.Client.Mutex(name, interlock.StrictOrder()), name, 1, 1)
	if g == nil {
		return
	}
	if e.IntN(4) == 0 {
		e.look(name)
	}
	g.end()
}

// look writes down in which order the tickets of a queue stand.
func (e *Env) look(name string) {
	ctx, cancel := context.WithTimeout(e.Stopped, e.TTL/4)
	defer cancel()
	q, err := e.Client.Admin().Queue(ctx, name)
	if err != nil {
		return
	}
	var ids []string
	shown := q.Waiters
	if !e.Mixes {
		shown = append(q.Holders, shown...)
	}
	for _, m := range shown {
		ids = append(ids, m.ID)
	}
	e.Write(history.Event{T: e.Now(), Worker: e.Worker, G: e.G, Kind: history.Seen, Object: name, IDs: ids})
}

func election(e *Env) {
	name := e.name("election")
	e.use(e.Client.Election(name).Candidate(fmt.Sprint(e.Worker)), name, 1, 1)
}

// multi acquires two locks as one. Each part has a history of its own.
func multi(e *Env) {
	names := []string{"multi/a", "multi/b"}
	locks := []*interlock.Lock{e.Client.Mutex(names[0]), cmp.Or(e.Other, e.Client).Mutex(names[1])}
	if e.IntN(2) == 0 {
		slices.Reverse(locks)
	}
	ctx, cancel := e.wait()
	defer cancel()
	first := e.n + 1 // two grants are written down for one call
	for _, name := range names {
		e.n++
		e.event(history.Event{Kind: history.Invoke, Op: "acquire", Object: name, Units: 1, Cap: 1})
	}
	lease, err := interlock.All(locks...).Acquire(ctx)
	parts := map[string]*interlock.Lease{}
	if err == nil {
		for _, p := range lease.Parts() {
			parts[p.Name()] = p
		}
	}
	var all []*grant
	for i, name := range names {
		e.n = first + i
		if g := e.granted(parts[name], err, name, 1, 1); g != nil {
			all = append(all, g)
		}
	}
	if err != nil {
		return
	}
	all[e.IntN(len(all))].work() // not under each: a waiter would wait for twice as long
	for _, g := range all {
		g.releases()
	}
	err = lease.Release()
	for _, g := range all {
		g.event(history.Event{Kind: history.Ended, Err: short(err)})
	}
}

func fenced(e *Env)   { e.count("fenced", true) }
func unfenced(e *Env) { e.count("unfenced", false) }

// count adds one to a counter at the resource, under a lock.
func (e *Env) count(work string, check bool) {
	name := e.name(work)
	g := e.acquire(e.Client.Mutex(name, e.options()...), name, 1, 1)
	if g == nil {
		return
	}
	defer g.end()
	q, a := Ask{Key: history.Key{Worker: e.Worker, G: e.G, N: g.n}, Object: name}, Answer{}
	if check {
		q.Token = g.Token()
	}
	if err := e.Do(q, &a); err != nil || !a.Taken {
		return
	}
	g.work()
	if g.Err() == nil || check { // one that checks nothing at the resource looks at its lease
		q.Write, q.Base, q.Value = true, a.Value, a.Value+1
		_ = e.Do(q, &a)
	}
}

// oncePerKey does the work of a key that others do, too.
func oncePerKey(e *Env) {
	if e.DB == nil {
		mutex(e)
		return
	}
	name := fmt.Sprintf("once/%d", e.Now()/int64(200*time.Millisecond))
	e.call(history.Event{Op: "once", Object: name}, true, func(ctx context.Context) (history.Event, error) {
		result, err := e.DB.Once(ctx, name)
		if err != nil {
			err = fmt.Errorf("%w: %w", interlock.ErrUnavailable, err)
		}
		return history.Event{Value: result}, err
	})
}

// latch counts down a latch of three, or waits for it.
func latch(e *Env) {
	const n = 3
	name := fmt.Sprintf("latch/%d", e.Now()/int64(e.Epoch/4))
	l := e.Client.Latch(name)
	call := func(op string, changes bool, f func(context.Context) error) bool {
		return e.call(history.Event{Op: op, Object: name, Cap: n}, changes,
			func(ctx context.Context) (history.Event, error) { return history.Event{}, f(ctx) })
	}
	if e.IntN(3) == 0 {
		call("latch", false, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, e.TTL/20) // perhaps too few come
			defer cancel()
			return l.Wait(ctx)
		})
	} else if call("latchset", true, func(ctx context.Context) error { _, err := l.Set(ctx, n); return err }) {
		call("countdown", true, func(ctx context.Context) error { _, err := l.CountDown(ctx); return err })
	}
}

// barrier enters and leaves a double barrier of two.
func barrier(e *Env) {
	const name, n = "barrier/two", 2
	b := e.Client.DoubleBarrier(name, n)
	var lease *interlock.Lease
	enter := func(context.Context) (out history.Event, err error) {
		ctx, cancel := context.WithTimeout(e.Stopped, e.TTL/10) // perhaps no other comes
		defer cancel()
		lease, err = b.Enter(ctx)
		// After 100 ms its place is given up in the background, also if it was evicted.
		if deadline, _ := ctx.Deadline(); err != nil && !is(err, interlock.ErrUnavailable, interlock.ErrLost) &&
			time.Since(deadline) <= 90*time.Millisecond {
			err = fmt.Errorf("%w: %w", errNothing, err)
		}
		return out, err
	}
	if e.call(history.Event{Op: "enter", Object: name, Cap: n}, true, enter) {
		e.call(history.Event{Op: "leave", Object: name}, true, func(context.Context) (history.Event, error) {
			ctx, cancel := context.WithTimeout(e.Stopped, 2*e.TTL)
			defer cancel()
			return history.Event{}, b.Leave(ctx, lease)
		})
	}
}

// value changes a value that others change, too.
func value(e *Env) {
	name := fmt.Sprintf("value/%d", e.Now()/int64(e.Epoch))
	v := interlock.NewValue[string](e.Client, name)
	var seen interlock.Snapshot[string]
	got := e.call(history.Event{Op: "get", Object: name}, false,
		func(ctx context.Context) (out history.Event, err error) {
			seen, err = v.Get(ctx)
			return history.Event{Ver: seen.Version, Value: seen.Value}, err
		})
	if !got {
		return
	}
	text := fmt.Sprintf("%d/%d#%d", e.Worker, e.G, e.n)
	e.call(history.Event{Op: "set", Object: name, Ver: seen.Version, Value: text}, true,
		func(ctx context.Context) (history.Event, error) {
			version, err := v.Set(ctx, text, seen.Version)
			if errors.Is(err, interlock.ErrInvalid) {
				err = errNothing
			}
			return history.Event{Ver: version}, err
		})
}
