package zklock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: hundreds of members of a double barrier enter and leave together, and none of their
// leases is lost, though they are renewed every second.
func TestHundredsOfMembersEnterAndLeave(t *testing.T) {
	t.Parallel()
	s := lent(t)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(45*time.Second))
	defer cancel()
	const n = 200
	var clients []*interlock.Client
	for range 2 {
		c := errtest.Must(interlock.Open(ctx, "zk://"+s.Addr+"/members", interlock.TTL(4*time.Second)))(t)
		defer c.Close()
		clients = append(clients, c)
	}
	var entered, left sync.WaitGroup
	entered.Add(n)
	for i := range n {
		d := clients[i%len(clients)].DoubleBarrier("d", n)
		left.Go(func() {
			lease, err := d.Enter(ctx)
			entered.Done()
			if err != nil {
				t.Errorf("Enter: %v", err)
				return
			}
			entered.Wait()
			if err := d.Leave(ctx, lease); err != nil {
				t.Errorf("Leave: %v", err)
			}
		})
	}
	left.Wait()
	// Each state that a client reads costs an exchange for each member that stands.
	exchanges := clients[0].Admin().Exchanges() + clients[1].Admin().Exchanges()
	if t.Logf("%d exchanges", exchanges); exchanges > 60_000 {
		t.Errorf("%d members cost %d exchanges", n, exchanges)
	}
}
