package drivertest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Thousands stand in line, and the very last is served, in order.
var _ = rules.Add(rule{Name: "Crowd", Long: true, Says: []string{
	firstCome,
	"Await returns once the ticket is held.",
}}, func(t *trial) {
	const sessions = 8
	var clients []*client
	for i := range sessions {
		if i%2 == 0 {
			clients = append(clients, t.client())
		} else {
			clients = append(clients, t.session(clients[i-1].driver, 10*limit))
		}
	}
	n := t.size(3000, 200)
	front := clients[0].hold(t.exclusive("q"))
	tickets := line(n, clients, func() driver.Request { return t.exclusive("q") })
	ctx, progress := t.WhileProgress()
	var served atomic.Int64 // the holder first
	t.Parallel(n+1, func(i int) error {
		if i == n {
			time.Sleep(time.Millisecond) // some wait already
			served.Add(1)
			return clients[0].Leave(ctx, front, true)
		}
		c := clients[i%sessions]
		if _, err := c.Await(ctx, tickets[i]); err != nil {
			return fmt.Errorf("await: %w", err)
		}
		progress()
		if turn := served.Add(1); turn != int64(i+2) {
			return fmt.Errorf("served as the %dth, the holder included", turn)
		}
		return c.Leave(ctx, tickets[i], true)
	})
	t.Allow(0)
	t.stands(clients[0].driver, "q", nil, nil)
})

// One Leave lets in thousands.
var _ = rules.Add(rule{Name: "CrowdOfReaders", Says: []string{
	theRule,
	"Await returns once the ticket is held.",
}}, func(t *trial) {
	clients := []*client{t.client(), t.client(), t.client()}
	n := t.size(2000, 100)
	w := clients[0].hold(writer("q"))
	readers := line(n, clients, func() driver.Request { return reader("q") })
	last := clients[0].wait(writer("q"))
	t.Allow(0)
	t.Parallel(n+1, func(i int) error {
		if i == n {
			time.Sleep(time.Millisecond) // some wait already
			return clients[0].Leave(t.Ctx, w, true)
		}
		if _, err := clients[i%3].Await(t.Ctx, readers[i]); err != nil {
			return fmt.Errorf("await: %w", err)
		}
		return nil
	})
	t.Allow(0)
	clients[0].waits(last)
	t.Parallel(n, func(i int) error { return clients[i%3].Leave(t.Ctx, readers[i], true) })
	clients[0].await(last)
})
