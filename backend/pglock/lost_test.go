package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: no token comes twice and none falls when an asynchronous standby takes over
// that has not received the last grants: in tables that were just made, and where tokens
// were raised, to a floor far above the clock or by a little, once or twice, with
// somebody in line or not.
func TestTokensOverAFailoverThatLosesGrants(t *testing.T) {
	t.Parallel()
	const far = uint64(1) << 62
	raise := func(floors ...uint64) func(*testing.T, *interlock.Client) {
		return func(t *testing.T, c *interlock.Client) {
			for _, floor := range floors {
				noError(t, c.Admin().RaiseToken(t.Context(), "q", floor))
			}
		}
	}
	for name, c := range map[string]struct {
		durability string
		before     func(*testing.T, *interlock.Client)
		crash      bool // of the primary, which the standby has not received either
	}{
		"logged and new":                {durability: "logged", before: raise()},
		"logged and raised":             {durability: "logged", before: raise(far)},
		"logged and raised twice":       {durability: "logged", before: raise(far, 1<<61)},
		"logged and raised little":      {durability: "logged", before: raisedBy(1 << 32)},
		"logged and raised over a line": {durability: "logged", before: raisedLine(far)},
		"unlogged and new":              {durability: "unlogged", before: raise()},
		"unlogged and crashed":          {durability: "unlogged", before: raise(), crash: true},
		"unlogged and raised":           {durability: "unlogged", before: raise(far)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Start(t, pgtest.Durable())
			standby := pgtest.StartStandby(t, s)
			client := clients(t, 1, both(s, standby)+"&durability="+c.durability)[0]
			tokens := growing{t: t, c: client}
			tokens.take(2)
			c.before(t, client)
			tokens.take(2)
			standby.CatchUp(s)
			standby.StopReceiving()
			tokens.take(10) // these are lost
			if c.crash {
				s.Kill()
				s.Restart()
				tokens.take(10)
			}
			s.Kill()
			standby.Promote()
			tokens.take(20)
		})
	}
}

// raisedBy raises tokens to a little above the last one.
func raisedBy(n uint64) func(*testing.T, *interlock.Client) {
	return func(t *testing.T, c *interlock.Client) {
		l := acquired(t, c, "q")
		noError(t, c.Admin().RaiseToken(t.Context(), "q", l.Token()+n))
		noError(t, l.Release())
	}
}

// raisedLine raises tokens while one holds and another one waits.
func raisedLine(floor uint64) func(*testing.T, *interlock.Client) {
	return func(t *testing.T, c *interlock.Client) {
		held := errtest.Must(c.Mutex("q", interlock.StrictOrder()).Acquire(t.Context()))(t)
		got := make(chan error, 1)
		go func() {
			l, err := c.Mutex("q", interlock.StrictOrder()).Acquire(t.Context())
			if err == nil {
				if l.Token() <= floor {
					t.Errorf("the token %d of one who waited while tokens were raised to %d", l.Token(), floor)
				}
				err = l.Release()
			}
			got <- err
		}()
		until(t, "the other one waits", func() bool {
			for q, err := range c.Admin().Queues(t.Context(), "q") {
				noError(t, err)
				return len(q.Waiters) == 1
			}
			return false
		})
		noError(t, c.Admin().RaiseToken(t.Context(), "q", floor))
		noError(t, held.Release())
		noError(t, <-got)
	}
}

// growing takes a lock again and again, and sees that its tokens grow.
type growing struct {
	t    *testing.T
	c    *interlock.Client
	last uint64
}

func (g *growing) take(n int) {
	g.t.Helper()
	for range n {
		l := acquired(g.t, g.c, "q")
		if l.Token() <= g.last {
			g.t.Fatalf("the token %d after %d", l.Token(), g.last)
		}
		g.last = l.Token()
		_ = l.Release() // a lease that was lost under load does as well
	}
}

// acquired takes a mutex, over a failover if need be.
func acquired(t *testing.T, c *interlock.Client, name string) *interlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
	defer cancel()
	l := errtest.Must(c.Mutex(name).Acquire(ctx))(t)
	return l
}
