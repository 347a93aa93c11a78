package chaos

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Garbled has so many clients, one after the other in a few lines, use a server of which they get other answers
// than it gives. URL is that of a server at an address. The test fails if what a client does goes on after
// the end of its context; if an answer ends the program, there is no more to be said.
func Garbled(t *testing.T, server string, clients int, url func(addr string) string) {
	t.Helper()
	turns := make(chan struct{}, 8)
	var all sync.WaitGroup
	for seed := range uint64(clients) {
		p, err := testserver.RunProxy(server, testserver.ProxyOptions{Filters: func() (requests, replies testserver.Filter) {
			return testserver.Pass, testserver.Garble(seed)
		}})
		if err != nil {
			t.Fatal(err)
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			defer p.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				useAll(ctx, url(p.Addr), fmt.Sprint("garbled/", seed))
			}()
			select {
			case <-ended:
			case <-time.After(busy.Bound(patience)):
				t.Errorf("what the client of seed %d does goes on past its context", seed)
			}
		})
	}
	all.Wait()
}

// useAll uses a little of everything, whatever becomes of it.
func useAll(ctx context.Context, url, name string) {
	_, _ = interlock.Examine(ctx, url)
	c, err := interlock.Open(ctx, url)
	if err != nil {
		return
	}
	defer c.Close()
	for range 5 {
		if l, err := c.Mutex(name).Acquire(ctx); err == nil {
			_, _ = c.Queue(ctx, name)
			_ = l.Release()
		}
		for range c.Queues(ctx, "") {
		}
		_, _ = interlock.NewValue[string](c, name).Set(ctx, "value", 0)
		_, _ = c.Latch(name).Set(ctx, 2)
	}
	_ = c.Check(ctx)
}
