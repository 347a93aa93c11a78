package zkpeer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Shape is who competes for what. All compete by mutexes of Curator.
type Shape struct {
	Clients int // with connections of their own
	Workers int // threads; worker i uses client i modulo Clients, and name i modulo Names
	Names   int
}

// Contest is a workload in the JVM of a peer, where threads acquire and release
// for a time.
type Contest struct {
	thread *Thread
	args   Args
}

// Figures are what a contest has done.
type Figures struct {
	Took  time.Duration   `json:"took"`
	Each  []int64         `json:"each"`  // grants of every worker within the time
	Gaps  []time.Duration `json:"gaps"`  // of each hand-off: from just before the release until the next one holds
	Stuck int             `json:"stuck"` // were still waiting when the limit was reached
	Wrong []string        `json:"wrong"` // what a lock must never do, and errors
}

// number makes the paths of contests differ.
var number atomic.Int64

// Contest connects the clients and warms them up for a time: a JVM compiles what
// it has already run for a while. The caller has to Close it.
func (p *Peer) Contest(ctx context.Context, s Shape, warm time.Duration) (*Contest, error) {
	path := fmt.Sprintf("/bench-%d-%d", time.Now().UnixNano(), number.Add(1))
	c := &Contest{p.thread("contest " + path), Args{"path": path}}
	err := c.thread.Call(ctx, "contest.prepare", Args{
		"path": path, "clients": s.Clients, "workers": s.Workers, "names": s.Names, "warm": warm.Milliseconds(),
	}, nil)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Run lets them compete for that time. Then each has until the limit to get the
// lock once more. It can be run again.
func (c *Contest) Run(ctx context.Context, d, limit time.Duration) (f Figures, err error) {
	err = c.thread.Call(ctx, "contest.run", Args{
		"path": c.args["path"], "time": d.Milliseconds(), "limit": limit.Milliseconds(),
	}, &f)
	return f, err
}

// Close closes the clients, which a server does one after the other.
func (c *Contest) Close(ctx context.Context) error {
	return c.thread.Call(ctx, "contest.close", c.args, nil)
}
