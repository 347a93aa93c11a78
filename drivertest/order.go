package drivertest

import (
	"fmt"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

const firstCome = "Grants are strictly first come, first served"

var _ = rules.Add(rule{Name: "Order", Exclusive: true, Across: true, Says: []string{firstCome}}, func(t *trial) {
	clients := []*client{t.client(), t.client(), t.client()}
	first := clients[0].hold(t.exclusive("q"))
	n := t.size(60, 15)
	tickets := line(n, clients, func() driver.Request { return t.exclusive("q") })
	var mu sync.Mutex
	var served []int
	clients[0].leave(first)
	t.Parallel(n, func(i int) error {
		i = n - 1 - i // the last waits first
		c := clients[i%3]
		if _, err := c.Await(t.Ctx, tickets[i]); err != nil {
			return fmt.Errorf("await: %w", err)
		}
		mu.Lock()
		served = append(served, i)
		mu.Unlock()
		return c.Leave(t.Ctx, tickets[i], true)
	})
	for i, got := range served {
		t.FatalIf(got != i, "served in the order %v", served)
	}
})

// Whoever comes while somebody waits stands behind, even if the lock is free at
// this moment and nobody has looked yet.
var _ = rules.Add(rule{Name: "NoBarging", Exclusive: true, Says: []string{firstCome}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	for range t.size(50, 10) {
		next := b.wait(t.exclusive("q"))
		a.leave(held)
		late := a.join(t.exclusive("q"))
		t.FatalIf(late.Held, "a Join passed a ticket that waited")
		if _, err := a.Join(t.Ctx, nowait(t.exclusive("q"))); err == nil {
			t.Fatalf("a Join with NoWait passed a ticket that waited")
		}
		got := b.await(next)
		a.leave(late)
		b.leave(got)
		held = a.hold(t.exclusive("q"))
	}
})
