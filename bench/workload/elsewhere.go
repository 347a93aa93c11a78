package workload

import (
	"context"
	"fmt"
	"time"
)

// Elsewhere is a contender in a process of its own, which measures there what W1
// to W5 measure here: calls from here would cost more than its locks.
type Elsewhere interface {
	// Contest connects the clients and has them lock until they are warm.
	Contest(ctx context.Context, s Shape) (Contest, error)

	// Crowd returns when all stand in line behind one holder, which they have to
	// until the limit. The waiters have so many clients, besides the holder's.
	Crowd(ctx context.Context, waiters, clients int, limit time.Duration) (Crowd, error)
}

// Contest is W1 to W4.
type Contest interface {
	// Run lets them compete for that time. Then each has until the limit to get
	// the lock once more.
	Run(ctx context.Context, d, limit time.Duration) (Figures, error)
	Close(ctx context.Context) error
}

// Crowd is W5.
type Crowd interface {
	// Drain releases the lock and waits until all have had it, or until the limit.
	Drain(ctx context.Context, limit time.Duration) (Figures, error)
	Close(ctx context.Context) error
}

// Figures are what workers have done.
type Figures struct {
	Took, CPU time.Duration

	Each    []int64         // grants of every worker within the time
	Drained int             // waiters that have had the lock
	Gaps    []time.Duration // of each hand-off

	Stuck int      // were still waiting when the limit was reached
	Wrong []string // what a lock must never do, and errors
}

// farewell is how long a process may take to close its clients.
const farewell = 30 * time.Second

func contestElsewhere(ctx context.Context, c Contender, e Env, s Shape, r *Result) error {
	contest, err := c.Elsewhere.Contest(ctx, s)
	if err != nil {
		return err
	}
	defer part(ctx, contest.Close)
	began, err := e.cost(ctx)
	if err != nil {
		return err
	}
	type result struct {
		f   Figures
		err error
	}
	done := make(chan result, 1)
	go func() {
		f, err := contest.Run(ctx, e.Time, e.Limit)
		done <- result{f, err}
	}()
	time.Sleep(e.Time)
	_, _, server, err := began.since(ctx) // before they take their last turns
	got := <-done
	if err == nil {
		err = got.err
	}
	if err != nil {
		return err
	}
	if got.f.Stuck > 0 {
		r.Stuck = fmt.Sprintf("%d of %d", got.f.Stuck, s.Workers)
	}
	summarize(r, got.f, server)
	return nil
}

func drainElsewhere(ctx context.Context, c Contender, e Env, r *Result) error {
	crowd, err := c.Elsewhere.Crowd(ctx, e.Waiters, min(e.Waiters, e.Clients), e.Limit)
	if err != nil {
		return err
	}
	defer part(ctx, crowd.Close)
	if err := watchIdle(ctx, e, r); err != nil {
		return err
	}
	began, err := e.cost(ctx)
	if err != nil {
		return err
	}
	f, err := crowd.Drain(ctx, e.Limit)
	if err != nil {
		return err
	}
	_, _, server, err := began.since(ctx)
	if err != nil {
		return err
	}
	if f.Stuck > 0 {
		r.Stuck = fmt.Sprintf("%d of %d", f.Stuck, e.Waiters)
	}
	for _, wrong := range f.Wrong {
		r.wrong("%s", wrong)
	}
	setDrained(r, f.Drained, f.Took, server)
	setGaps(r, f.Gaps)
	return nil
}

// part closes what has connections, also after ctx has ended.
func part(ctx context.Context, end func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	_ = end(ctx)
}
