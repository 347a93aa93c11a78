package zklock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: calls that wait, and give up, leave nothing behind in the client, which would
// grow with them and be sent to the next server; those that go on are told of changes
// there as before.
func TestWaitsLeaveNothingInTheClient(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d := opened(t, via.Addr)
	a, b := session(t, opened(t, s.Addr), 20*time.Second), session(t, d, 20*time.Second)
	h := holds(t, a, aMutex("q"))
	k := join(t, b, aMutex("q"))
	beat(t, b, k)
	same := errtest.Must(d.Follow(limited(t), "q", ""))(t)
	waits := []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := b.Await(ctx, k); return err },
		func(ctx context.Context) error { _, err := d.Watch(ctx, "value", 0); return err },
		func(ctx context.Context) error { _, err := d.Follow(ctx, "q", same.Version); return err },
	}
	for range 10 {
		for _, wait := range waits {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("it did not wait: %v", err)
			}
			cancel()
		}
	}
	var again atomic.Int32
	via.Observe(func(f zktest.Frame) {
		if !f.Reply && f.Op == zktest.OpSetWatches && f.Xid > 0 { // as the client numbers its requests
			again.Add(1)
		}
	})
	ends := make(chan error)
	for _, wait := range waits {
		go func() { ends <- wait(limited(t)) }()
	}
	for range 3 {
		connections := via.Requests(zktest.OpConnect)
		via.Cut()
		busy.Until(t, "the client is back", func() bool { return via.Requests(zktest.OpConnect) > connections })
		if _, err := b.Renew(limited(t), []driver.Ticket{k}); err != nil {
			t.Log(err) // the connection was just lost
		}
	}
	if n := again.Load(); n > 0 {
		t.Errorf("the client has set its watches again, in %d requests", n)
	}
	_, err := d.Swap(limited(t), driver.Swap{ID: someID(), Name: "value", Value: []byte("x")})
	noError(t, err)
	noError(t, a.Leave(limited(t), h, true))
	for range waits {
		noError(t, <-ends)
	}
}
