package workload

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

var drained = []Column{
	{Figure: "drain s", Decimals: 3, Less: true}, {Figure: "drained"}, {Figure: "hand-offs/s"},
	{Figure: "gap p50 µs", Decimals: 1}, {Figure: "gap p99 µs", Decimals: 1},
	{Figure: "commands/hand-off", Decimals: 2, Less: true}, {Figure: "scripts/hand-off", Decimals: 2, Less: true},
	{Figure: "transactions/hand-off", Decimals: 2, Less: true},
	{Figure: "bytes sent/hand-off", Less: true},
	{Figure: "commands while queued/s"},
}

// waiter is one of the crowd.
type waiter struct {
	ticket  string
	at      time.Time // of the grant
	gap     time.Duration
	failure error
}

// drain lines up waiters behind one holder and times how long it takes, from
// its release, until the last of them had the lock.
func drain(ctx context.Context, c Contender, e Env) Result {
	r, f := newResult(c, e), drainCrowd
	if c.Elsewhere != nil {
		f = drainElsewhere
	}
	if err := f(ctx, c, e, &r); err != nil {
		r.Failed = err.Error()
	}
	return r
}

func drainCrowd(ctx context.Context, c Contender, e Env, r *Result) error {
	// Who does not renew must still hold when all are in line.
	clients, end, err := begin(ctx, c, min(e.Waiters, e.Clients)+1, ttl+e.Limit)
	if err != nil {
		return err
	}
	defer end()
	name := newName()
	// Connections are made and scripts are loaded before.
	err = together(len(clients), 32, func(i int) error {
		h, err := clients[i].Lock(fmt.Sprintf("%s/warm/%d", name, i))(ctx)
		if err != nil {
			return err
		}
		return h.Release()
	})
	if err != nil {
		return err
	}
	if c.Rehearsed {
		if err := waitOnce(ctx, clients, Shape{Clients: len(clients), Workers: len(clients)}, name+"/once"); err != nil {
			return err
		}
	}
	holder, clients := clients[0], clients[1:]
	a := &arena{worker: -1}
	first, err := holder.Lock(name)(ctx)
	if err != nil {
		return err
	}
	v, _, _, _ := a.enter(-1, first, time.Now())

	started, err := e.cost(ctx)
	if err != nil {
		return err
	}
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	crowd := make([]waiter, e.Waiters)
	done := make(chan int, e.Waiters)
	var ready atomic.Int64
	for i := range crowd {
		mine, cancel := context.WithCancel(all)
		go func() {
			defer cancel()
			ready.Add(1)
			crowd[i].wait(mine, i, clients[i%len(clients)].Lock(name), a, e.seen)
			done <- i
		}()
	}
	lined, err := lineUp(ctx, e, holder, len(clients), name, &ready, started)
	if err != nil {
		return err
	}
	if err := watchIdle(ctx, e, r); err != nil {
		return err
	}
	began, err := e.cost(ctx)
	if err != nil {
		return err
	}
	e.seen.note(v.leave(time.Now()))
	if err := first.Release(); err != nil {
		return fmt.Errorf("the first release: %w", err)
	}
	limit := time.NewTimer(e.Limit)
	defer limit.Stop()
	through := 0
wait:
	for through < e.Waiters {
		select {
		case <-done:
			through++
		case <-limit.C:
			r.Stuck = fmt.Sprintf("%d of %d", e.Waiters-through, e.Waiters)
			break wait
		}
	}
	took, _, server, err := began.since(ctx)
	if err != nil {
		return err
	}
	cancel()
	for range e.Waiters - through {
		<-done
	}
	setDrained(r, through, took, server)
	judge(r, crowd, lined)
	return nil
}

func setDrained(r *Result, through int, took time.Duration, server Usage) {
	r.set("drain s", took.Seconds())
	r.set("drained", float64(through))
	r.set("hand-offs/s", float64(through)/took.Seconds())
	r.set("commands/hand-off", server.Commands/float64(through))
	r.set("scripts/hand-off", server.Scripts/float64(through))
	r.set("transactions/hand-off", server.Transactions/float64(through))
	r.set("bytes sent/hand-off", server.Sent/float64(through))
}

// settle is how long those who wait are watched at least before anything is
// released: what they send then is their polling.
const settle = 300 * time.Millisecond

func watchIdle(ctx context.Context, e Env, r *Result) error {
	queued, err := e.cost(ctx)
	if err != nil {
		return err
	}
	time.Sleep(max(settle, e.Settle))
	took, _, idle, err := queued.since(ctx)
	if err != nil {
		return err
	}
	r.set("commands while queued/s", idle.Commands/took.Seconds())
	return nil
}

// lineUp returns once all wait, and if the contender knows it, who waits in
// which order: tickets, of which goroutines of one client may share one. Of
// contenders that do not know who waits, every waiter has sent something.
func lineUp(ctx context.Context, e Env, holder Client, clients int, name string, ready *atomic.Int64, started cost) ([]string, error) {
	l, knows := holder.(lining)
	late := fmt.Errorf("the waiters are not in line after %v", e.Limit)
	ctx, cancel := context.WithTimeoutCause(ctx, e.Limit, late)
	defer cancel()
	pause := time.Duration(0)
	for same, before := 0, 0; ; time.Sleep(pause) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		pause = 20 * time.Millisecond
		if ready.Load() < int64(e.Waiters) {
			continue
		}
		if q, ok := holder.(queueing); ok {
			n, err := q.Queued(ctx, name)
			if err != nil || n >= e.Waiters {
				return nil, err
			}
			continue
		}
		if !knows {
			_, _, u, err := started.since(ctx)
			if err != nil || u.Commands >= float64(e.Waiters) {
				return nil, err
			}
			continue
		}
		began := time.Now()
		lined, err := l.Waiting(ctx, name)
		pause = max(pause, time.Since(began)) // looking is work too
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil || len(lined) == e.Waiters:
			return lined, err
		case len(lined) != before:
			same, before = 0, len(lined)
		case len(lined) >= clients:
			if same++; same == 10 {
				return lined, nil
			}
		}
	}
}

func (w *waiter) wait(ctx context.Context, i int, lock Lock, a *arena, seen *mistakes) {
	h, err := lock(ctx)
	w.at = time.Now()
	if err != nil {
		w.failure = fmt.Errorf("acquire: %w", err)
		return
	}
	v, gap, _, err := a.enter(i, h, w.at)
	w.gap = gap
	seen.note(err)
	if id, ok := h.(identified); ok {
		w.ticket = id.Ticket()
	}
	seen.note(v.leave(time.Now()))
	if err := h.Release(); err != nil {
		w.failure = fmt.Errorf("release: %w", err)
	}
}

func judge(r *Result, crowd []waiter, lined []string) {
	var gaps []time.Duration
	served := make([]*waiter, 0, len(crowd))
	for i := range crowd {
		w := &crowd[i]
		switch {
		case w.failure == nil:
			gaps = append(gaps, w.gap)
			served = append(served, w)
		case r.Stuck == "":
			r.wrong("%v", w.failure)
		}
	}
	setGaps(r, gaps)
	if lined == nil || len(served) != len(lined) {
		return
	}
	r.Checked = append(r.Checked, Order)
	slices.SortFunc(served, func(a, b *waiter) int { return a.at.Compare(b.at) })
	for i, w := range served {
		if w.ticket != lined[i] {
			r.wrong("number %d in line was not number %d to be served", i, i)
			return
		}
	}
}
