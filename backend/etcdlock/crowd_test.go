package etcdlock_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// waiters is how many wait in a long line, unless ETCDLOCK_WAITERS says it.
func waiters(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("ETCDLOCK_WAITERS")); err == nil {
		return n
	}
	return usual
}

// crowd is waiters of a few clients in one queue.
type crowd struct {
	t       *testing.T
	ctx     context.Context
	drivers []driver.Driver
	line    []ticket // in the order of the queue
	bytes   atomic.Int64
}

type ticket struct {
	driver.Session
	driver.Ticket
}

// newCrowd has n wait behind a holder, which is the first of the line.
func newCrowd(t *testing.T, n int, endpoints ...string) *crowd {
	ctx, cancel := context.WithTimeout(t.Context(), bound()+time.Duration(n)*100*time.Millisecond)
	t.Cleanup(cancel)
	c := &crowd{t: t, ctx: ctx}
	var sessions []driver.Session
	for range 5 {
		client := errtest.Must(clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithStatsHandler(c)}}))(t)
		d := errtest.Must(etcdlock.New(ctx, client))(t)
		t.Cleanup(func() { _ = ownClient{d, client}.Close() })
		s := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: 10 * time.Minute}))(t)
		c.drivers, sessions = append(c.drivers, d), append(sessions, s)
	}
	for i := range n + 1 {
		c.line = append(c.line, c.join(sessions[i%len(sessions)]))
	}
	return c
}

func (c *crowd) join(s driver.Session) ticket {
	k, err := s.Join(c.ctx, driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1})
	noError(c.t, err)
	return ticket{s, k}
}

// cost is what clients have asked for and been told.
type cost struct {
	exchanges, bytes int64
	time             time.Time
}

func (c *crowd) cost() cost {
	sum := cost{bytes: c.bytes.Load(), time: time.Now()}
	for _, d := range c.drivers {
		sum.exchanges += int64(d.Exchanges())
	}
	return sum
}

// handOn has the first n leave, one after the other, each as soon as it is held.
func (c *crowd) handOn(n int) {
	c.t.Helper()
	for i, k := range c.line[:n] {
		if !k.Held {
			var err error
			if k.Ticket, err = k.Await(c.ctx, k.Ticket); err != nil {
				c.t.Fatalf("Await of %d: %v", i, err)
			}
		}
		noError(c.t, k.Leave(c.ctx, k.Ticket, true))
	}
	c.line = c.line[n:]
}

// wait has all who are in the line wait at once. They leave as they are granted. It returns what waits for them.
func (c *crowd) wait() (served func()) {
	var mu sync.Mutex
	var order, line []string
	var all sync.WaitGroup
	for _, k := range c.line {
		line = append(line, k.ID)
		all.Go(func() {
			got, err := k.Await(c.ctx, k.Ticket)
			if err != nil {
				c.t.Errorf("Await: %v", err)
				return
			}
			mu.Lock()
			order = append(order, got.ID)
			mu.Unlock()
			err = k.Leave(c.ctx, got, true)
			for err != nil && !errors.Is(err, driver.ErrGone) && c.ctx.Err() == nil { // a server went away meanwhile
				time.Sleep(time.Millisecond)
				err = k.Leave(c.ctx, got, true)
			}
			if err != nil && !errors.Is(err, driver.ErrGone) {
				c.t.Errorf("Leave: %v", err)
			}
		})
	}
	return func() {
		all.Wait()
		if !slices.Equal(order, line) {
			c.t.Error("not in their order")
		}
	}
}

func (c *crowd) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (c *crowd) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *crowd) HandleConn(context.Context, stats.ConnStats)                       {}
func (c *crowd) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.InPayload:
		c.bytes.Add(int64(s.WireLength))
	case *stats.OutPayload:
		c.bytes.Add(int64(s.WireLength))
	}
}

// Promise: a hand-off, and to come to wait, cost the same in a short and in a long line. ETCDLOCK_WAITERS makes it
// longer.
func TestAHandOffCostsTheSameInACrowd(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		const times = 20
		measure := func(n int) (handOff, join cost) {
			c := newCrowd(t, n, etcdtest.Start(t, of).Addr)
			c.handOn(2) // the listeners stand
			before := c.cost()
			c.handOn(times)
			after := c.cost()
			for i := range times {
				c.line = append(c.line, c.join(c.line[i].Session))
			}
			joined := c.cost()
			t.Logf("%d waiters: a hand-off takes %v, a Join %v", n, after.time.Sub(before.time)/times, joined.time.Sub(after.time)/times)
			return cost{after.exchanges - before.exchanges, after.bytes - before.bytes, time.Time{}}, cost{joined.exchanges - after.exchanges, joined.bytes - after.bytes, time.Time{}}
		}
		n := waiters(200)
		shortHandOff, shortJoin := measure(n / 5)
		longHandOff, longJoin := measure(n)
		compare := func(what string, short, long cost, most int64) {
			t.Logf("%d %s: %d exchanges and %d bytes, %d and %d in the long line", times, what, short.exchanges, short.bytes, long.exchanges, long.bytes)
			if long.exchanges > most*times+times/4 || long.bytes > short.bytes*5/4 {
				t.Errorf("%s: more than %d exchanges each, or more bytes in the long line", what, most)
			}
		}
		compare("hand-offs", shortHandOff, longHandOff, 2)
		compare("Joins", shortJoin, longJoin, 4) // with the watch, and a look if that may have begun too late
	})
}

// Promise: compaction, the death of the leader, and a member that is restarted leave no waiter behind.
// ETCDLOCK_WAITERS makes the line longer.
func TestADisturbedCrowdIsServed(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		servers := etcdtest.StartCluster(t, 3, of)
		var endpoints []string
		for _, s := range servers.Servers {
			endpoints = append(endpoints, s.Addr)
		}
		c := newCrowd(t, waiters(60), endpoints...)
		first := c.line[0]
		c.line = c.line[1:]
		served := c.wait()
		leader := servers.Leader()
		leader.Kill()
		servers.Leader(servers.Others(leader)...)
		busy.Until(t, "the holder leaves", func() bool {
			err := first.Leave(c.ctx, first.Ticket, true)
			return err == nil || errors.Is(err, driver.ErrGone)
		})
		servers.Restart(leader)
		servers.Leader()
		etcd := raw(t, endpoints...)
		now := errtest.Must(etcd.Get(c.ctx, "x"))(t)
		errtest.Must(etcd.Compact(c.ctx, now.Header.Revision, clientv3.WithCompactPhysical()))(t)
		servers.Restart(servers.Others(servers.Leader())[0])
		served()
	})
}
