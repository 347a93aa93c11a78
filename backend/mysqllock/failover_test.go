package mysqllock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/takeover"
)

// numbered is the grants of a queue, each of which has a larger token than those before,
// whichever server has given it.
type numbered struct {
	t     *testing.T
	queue string
	last  uint64
	n     int
}

func (g *numbered) note(how string, k driver.Ticket) {
	g.t.Helper()
	if !k.Held || k.Token <= g.last || k.Token >= driver.MaxToken {
		g.t.Errorf("%s, %s: the token %d after %d, held %v", g.queue, how, k.Token, g.last, k.Held)
	}
	g.last = max(g.last, k.Token)
}

func (g *numbered) request() driver.Request {
	g.n++
	r := mutex(g.queue, 0)
	r.ID = fmt.Sprintf("%016x%016x", len(g.queue)<<32|int(g.queue[len(g.queue)-1]), g.n)
	return r
}

// several are grants of an empty queue, and of one in which some wait.
func (g *numbered) several(ctx context.Context, when string, one *driver.Opened) {
	g.t.Helper()
	for range 3 {
		for _, retry := range []bool{false, true} {
			r := g.request()
			r.Retry = retry
			k, err := one.Join(ctx, r)
			if err != nil {
				g.t.Fatalf("%s, %s: %v", g.queue, when, err)
			}
			g.note(when, k)
			leave(ctx, g.t, one, k)
		}
	}
	var line []driver.Ticket
	for range 3 {
		k, err := one.Join(ctx, g.request())
		noError(g.t, err)
		line = append(line, k)
	}
	for _, k := range line {
		k, err := one.Await(ctx, k)
		noError(g.t, err)
		g.note(when+", in a line", k)
		leave(ctx, g.t, one, k)
	}
}

func leave(ctx context.Context, t *testing.T, one *driver.Opened, k driver.Ticket) {
	t.Helper()
	noError(t, one.Leave(ctx, k, true))
}

// Promise: a replica that takes over without the last grants of its primary gives out none of
// their tokens again, also after raises far above the clock, of which a second one lowers
// nothing.
func TestAFailoverRepeatsNoToken(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("the commands for a replica are those of MariaDB")
	}
	primary := mysqltest.Primary(t)
	replica := mysqltest.Replica(t, primary)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
	defer cancel()
	d, one := session(t, primary.URL())
	var all []*numbered
	for _, queue := range []string{"plain", "raised", "raised/twice", "raised/waiting"} {
		g := &numbered{t: t, queue: queue}
		all = append(all, g)
		raise := func(floor uint64) {
			t.Helper()
			noError(t, d.Raise(ctx, queue, floor))
			g.last = max(g.last, floor)
		}
		g.several(ctx, "before", one)
		switch queue {
		case "raised":
			raise(1 << 49)
		case "raised/twice":
			raise(1 << 49)
			raise(1 << 48)
		case "raised/waiting":
			front := errtest.Must(one.Join(ctx, g.request()))(t)
			g.note("before the raise", front)
			next, err := one.Join(ctx, g.request())
			noError(t, err)
			raise(1 << 49)
			leave(ctx, t, one, front)
			next = errtest.Must(one.Await(ctx, next))(t)
			g.note("that waited for the raise", next)
			leave(ctx, t, one, next)
		}
		g.several(ctx, "replicated", one)
	}
	replica.CatchUp(primary)
	replica.Detach()
	for range 20 {
		for _, g := range all {
			g.several(ctx, "not replicated", one)
		}
	}
	primary.Kill()
	replica.Promote()
	_, other := session(t, replica.URL())
	for _, g := range all {
		g.several(ctx, "after the failover", other)
	}
}

// both is the URL of a primary and its replica.
func both(primary, replica *mysqltest.Server) string {
	return strings.Replace(primary.URL(), primary.Addr, primary.Addr+","+replica.Addr, 1)
}

// Promise: a lock whose release the replica has not received when it takes over is free again
// soon, though the client that has released it lives; what that holds stays its own.
func TestAFailoverThatHasLostAReleaseBlocksNobody(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("the commands for a replica are those of MariaDB")
	}
	primary := mysqltest.Primary(t)
	replica := mysqltest.Replica(t, primary)
	takeover.LosesReleases(t, both(primary, replica), func() { replica.CatchUp(primary); replica.Detach() }, func() {
		primary.Kill()
		replica.Promote()
	})
}
