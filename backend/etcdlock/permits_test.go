package etcdlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// Promise: while the number changes all the time, no more hold than the largest number allows, nobody loses a permit, and all
// are served.
func TestPermitsThatChangeAllTheTime(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*bound())
	defer cancel()
	var clients []*interlock.Client
	for range 3 {
		c := errtest.Must(interlock.Open(ctx, "etcd://"+s.Addr+"?ttl=1m"))(t)
		defer c.Close()
		clients = append(clients, c)
	}
	noError(t, clients[0].SetPermits(ctx, "s", 3))
	var mu sync.Mutex
	used, most := 0, 0
	use := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		used += n
		most = max(most, used)
	}
	var work, changes sync.WaitGroup
	for i := range 12 {
		work.Go(func() {
			weight := 1 + i%2
			l := clients[i%3].Semaphore("s", int64(2+i%3), interlock.Weight(int64(weight)), interlock.StrictOrder())
			for range 3 {
				lease, err := l.Acquire(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				use(weight)
				time.Sleep(5 * time.Millisecond)
				use(-weight)
				errtest.Is(t, lease.Release(), nil)
			}
		})
	}
	changing, stop := context.WithCancel(ctx)
	for _, c := range clients[:2] {
		changes.Go(func() {
			for n := int64(0); changing.Err() == nil; n++ {
				errtest.Is(t, c.SetPermits(ctx, "s", 2+n%3), nil)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	work.Wait()
	stop()
	changes.Wait()
	if most > 4 {
		t.Errorf("%d permits are in use, where four were set at most", most)
	}
	noError(t, clients[0].UnsetPermits(ctx, "s"))
	q, err := clients[0].Queue(ctx, "s")
	if err != nil || q.PermitsSet || len(q.Holders)+len(q.Waiters) > 0 {
		t.Errorf("nobody holds or waits; it shows %+v, %v", q, err)
	}
}
