package zklock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: while leaders are killed, and cut off from the others, and come back, one
// holds at a time, tokens grow, and nobody waits at the end: no ticket is left that nobody has.
func TestFailoversByDeathAndByFreezing(t *testing.T) {
	t.Parallel()
	rounds := repeated(t, "ZKLOCK_FAILOVERS", 3)
	e := zktest.StartEnsemble(t, 3, zktest.Config("syncLimit", "5"))
	url := "zk://" + strings.Join(e.Addrs(), ",") + "/app?ttl=4s"
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in := &inside{t: t}
	var workers sync.WaitGroup
	var clients []*interlock.Client
	for range 3 {
		c, err := interlock.Open(t.Context(), url)
		noError(t, err)
		defer c.Close()
		clients = append(clients, c)
		for range 2 {
			workers.Go(func() {
				for ctx.Err() == nil {
					in.work(ctx, c)
				}
			})
		}
	}
	for i := range rounds {
		time.Sleep(time.Second + rand.N(time.Second))
		leader := e.Leader()
		if i%2 == 0 {
			e.Freeze(leader)
			time.Sleep(rand.N(4 * time.Second)) // for an election, or too short for one
			e.Thaw(leader)
		} else {
			leader.Kill()
			e.Leader()
			e.Restart(leader)
		}
		e.Leader()
	}
	stop()
	workers.Wait()
	if in.grants == 0 {
		t.Error("nobody has held")
	}
	t.Logf("%d grants", in.grants)
	for _, c := range clients {
		wait, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
		lease, err := c.Mutex("job").Acquire(wait)
		cancel()
		if err != nil {
			t.Fatalf("somebody stands who has left: %v; %q", err, nodes(t, connected(t, e.Leader().Addr), "/app/job"))
		}
		noError(t, lease.Release())
	}
	until(t, "no ticket is left", func() bool { return len(nodes(t, connected(t, e.Leader().Addr), "/app/job")) == 0 })
}

// inside is who works under the lock.
type inside struct {
	t      *testing.T
	mu     sync.Mutex
	holder *interlock.Lease
	last   uint64
	grants int
}

func (in *inside) work(ctx context.Context, c *interlock.Client) {
	wait, cancel := context.WithTimeout(ctx, 100*time.Millisecond+rand.N(10*time.Second))
	defer cancel()
	lease, err := c.Mutex("job").Acquire(wait)
	if err != nil {
		return
	}
	in.mu.Lock()
	if other := in.holder; other != nil && other.Err() == nil && lease.Err() == nil {
		in.t.Errorf("two hold: %d beside %d", lease.Token(), other.Token())
	}
	if lease.Token() <= in.last {
		in.t.Errorf("token %d after %d", lease.Token(), in.last)
	}
	in.last, in.holder = lease.Token(), lease
	in.grants++
	in.mu.Unlock()
	time.Sleep(rand.N(20 * time.Millisecond))
	in.mu.Lock()
	if in.holder == lease {
		in.holder = nil
	}
	in.mu.Unlock()
	if err := lease.Release(); err != nil && !errors.Is(err, interlock.ErrLost) {
		in.t.Errorf("Release: %v", err)
	}
}
