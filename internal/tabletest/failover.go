package tabletest

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// LosesReleases has a client release locks after the replica receives nothing more, and
// demands that after the failover these are free for others, while it keeps what it holds.
// The URL leads to both servers.
func LosesReleases(t *testing.T, url string, stopReceiving, failOver func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := func() *interlock.Client {
		c := errtest.Must(interlock.Open(ctx, url, interlock.TTL(3*time.Second)))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	acquire := func(c *interlock.Client, name string) *interlock.Lease {
		t.Helper()
		return errtest.Must(c.Mutex(name).Acquire(ctx))(t)
	}
	c, other := client(), client()
	kept, alone, wanted := acquire(c, "kept"), acquire(c, "alone"), acquire(c, "wanted")
	wait, giveUp := context.WithCancel(ctx)
	gaveUp := make(chan error, 1)
	go func() {
		_, err := other.Mutex("wanted").Acquire(wait)
		gaveUp <- err
	}()
	for q, err := range c.Admin().Follow(ctx, "wanted") {
		errtest.None(t, err)
		if len(q.Waiters) > 0 {
			break
		}
	}
	giveUp()
	errtest.MustBe(t, <-gaveUp, context.Canceled, "what is held")
	stopReceiving()
	for _, l := range []*interlock.Lease{alone, wanted} {
		errtest.None(t, l.Release())
	}
	failOver()
	for _, name := range []string{"alone", "wanted"} {
		errtest.Is(t, acquire(other, name).Release(), nil, name)
	}
	errtest.Is(t, kept.Err(), nil, "what was held is lost")
	_, err := other.Mutex("kept").TryAcquire(ctx)
	errtest.Is(t, err, interlock.ErrBusy, "what is held")
}

// Failover is what a test of tokens does with a server and its replica. Each Opened is a session of one server.
type Failover struct {
	Driver  driver.Driver // of the primary
	Before  *driver.Opened
	Detach  func()                // the replica catches up, and receives nothing more
	Crash   func() *driver.Opened // of the primary; nil: there is none
	Promote func() *driver.Opened // the primary dies, and the replica takes over
}

// RepeatsNoToken demands that the replica gives out no token again that it has not heard of, also after raises far
// above the clock, where a second, lower one changes nothing, by a little, and while a client waits.
func (f Failover) RepeatsNoToken(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
	defer cancel()
	var all []*Tokens
	for queue, floors := range map[string][]uint64{
		"plain": nil, "raised": {1 << 49}, "raised/twice": {1 << 49, 1 << 48}, "raised/little": {0}, "raised/waiting": {1 << 49},
	} {
		g := &Tokens{T: t, Queue: queue}
		all = append(all, g)
		g.Take(ctx, "before", f.Before)
		var front, next driver.Ticket
		if queue == "raised/waiting" {
			front, next = g.join(ctx, f.Before), g.join(ctx, f.Before)
			g.grows("before the raise", front)
		}
		for _, floor := range floors {
			if floor == 0 {
				floor = g.Last + 1<<20
			}
			errtest.None(t, f.Driver.Raise(ctx, queue, floor))
			g.Last = max(g.Last, floor)
		}
		if next.ID != "" {
			errtest.None(t, f.Before.Leave(ctx, front, true))
			next = errtest.Must(f.Before.Await(ctx, next))(t)
			g.grows("that waited for the raise", next)
			errtest.None(t, f.Before.Leave(ctx, next, true))
		}
		g.Take(ctx, "replicated", f.Before)
	}
	f.Detach()
	take := func(n int, when string, s *driver.Opened) {
		for range n {
			for _, g := range all {
				g.Take(ctx, when, s)
			}
		}
	}
	take(10, "not replicated", f.Before)
	if f.Crash != nil {
		take(10, "after a crash of the primary", f.Crash())
	}
	take(2, "after the failover", f.Promote())
}

// Tokens grow from each grant of a queue to the next, on one server and over a failover.
type Tokens struct {
	T     testing.TB
	Queue string
	Last  uint64
}

// Take takes grants in all ways: of an empty queue, the second one with a Join that is repeated, and of one in which
// some wait.
func (g *Tokens) Take(ctx context.Context, when string, s *driver.Opened) {
	g.T.Helper()
	for _, retry := range []bool{false, true} {
		r := mutex(g.Queue)
		r.Retry = retry
		g.await(ctx, when, s, errtest.Must(s.Join(ctx, r))(g.T))
	}
	g.await(ctx, when+", in a line", s, g.join(ctx, s), g.join(ctx, s), g.join(ctx, s))
}

// await waits for tickets one after the other, and leaves each. They are renewed meanwhile: a grace may be long.
func (g *Tokens) await(ctx context.Context, when string, s *driver.Opened, line ...driver.Ticket) {
	g.T.Helper()
	beating, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() { stop(); <-done }()
	go func() {
		defer close(done)
		for {
			select {
			case <-beating.Done():
				return
			case <-time.After(s.TTL / 5):
				_, _ = s.Renew(beating, line)
			}
		}
	}()
	for _, k := range line {
		k = errtest.Must(s.Await(ctx, k))(g.T)
		g.grows(when, k)
		errtest.None(g.T, s.Leave(ctx, k, true))
	}
}

func (g *Tokens) join(ctx context.Context, s *driver.Opened) driver.Ticket {
	g.T.Helper()
	return errtest.Must(s.Join(ctx, mutex(g.Queue)))(g.T)
}

func (g *Tokens) grows(how string, k driver.Ticket) {
	g.T.Helper()
	if !k.Held || k.Token <= g.Last || k.Token >= driver.MaxToken {
		g.T.Errorf("%s, %s: the token %d after %d, held %v", g.Queue, how, k.Token, g.Last, k.Held)
	}
	g.Last = max(g.Last, k.Token)
}
