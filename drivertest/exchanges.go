package drivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

var _ = rules.Add(rule{Name: "IdleWaiters", Says: []string{
	"While it waits it causes no exchanges but those of Renew and of its own grant.",
	"Exchanges counts the exchanges with the backend so far, heartbeats included: a round trip to a server, a transaction on a file.",
}}, func(t *trial) {
	holder := t.client()
	first := holder.hold(t.exclusive("q"))
	clients := []*client{holder, t.client(), t.client(), t.client()} // the holder waits, too: others may begin to listen late
	n := t.size(1000, 100)
	tickets := line(n, clients, func() driver.Request { return t.exclusive("q") })
	ctx, cancel := context.WithCancel(t.Ctx)
	defer cancel()
	errs := make(chan error, n)
	for i := range n {
		t.Calls.Go(func() {
			_, err := clients[i%4].Await(ctx, tickets[i])
			errs <- err
		})
	}
	count := func() uint64 { return spent(clients) }
	last := t.quiet(count)
	time.Sleep(2 * time.Second)
	now := count()
	t.FatalIf(now != last, "%d idle waiters caused %d exchanges in 2 s without a Renew", n, now-last)

	// Heartbeats cost what they cost, not what the waiters cost.
	const beats = 4
	for i, c := range clients {
		var known []driver.Ticket
		for j := i; j < n; j += 4 {
			known = append(known, tickets[j])
		}
		if c == holder {
			known = append(known, first)
		}
		before := c.driver.Exchanges()
		for range beats {
			c.renew(known...)
		}
		if used := c.driver.Exchanges() - before; used < beats || used > uint64(beats*(2+n/80)) {
			t.Fatalf("%d heartbeats for %d tickets took %d exchanges", beats, len(known), used)
		}
	}
	t.FatalIf(len(errs) > 0, "Await of a ticket that is not held has returned")
	t.stands(holder.driver, "q", []driver.Ticket{first}, tickets)
	cancel()
	for range n {
		t.Is(<-errs, context.Canceled, "Await after the end of its context")
	}
})

// quiet waits until waiters that have just begun cause no more exchanges, and returns
// their count: each Await may begin with a look of its own.
func (t *trial) quiet(count func() uint64) uint64 {
	last, quiet := count(), 0
	t.Eventually("the exchanges of idle waiters end", func() bool {
		time.Sleep(100 * time.Millisecond)
		now := count()
		if quiet++; now != last {
			last, quiet = now, 0
		}
		return quiet == 5
	})
	return last
}

var _ = rules.Add(rule{Name: "BoundedExchanges", Says: []string{
	"Every method is a bounded number of exchanges with the backend and waits for no other client, except Await, Signals, Watch and Follow, which wait until their context ends.",
}}, func(t *trial) {
	const most = 12 // far more than needed, and far less than one for each waiter
	a, b := t.client(), t.client()
	n := t.size(1000, 100)
	cost := func(about string, c *client, call func()) {
		before := c.driver.Exchanges()
		call()
		used := c.driver.Exchanges() - before
		t.FatalIf(used > most, "%s took %d exchanges with %d waiters", about, used, n)
	}
	var waiting []driver.Ticket
	held := a.hold(t.exclusive("q"))
	for range n {
		cost("Join", b, func() { waiting = append(waiting, b.wait(t.exclusive("q"))) })
	}
	// Hand-overs are counted together: what the next waiter does for its grant need not
	// end with the call that grants it.
	const handOvers = 20
	before := a.driver.Exchanges() + b.driver.Exchanges()
	a.leave(held)
	for i, next := range waiting[:handOvers] {
		b.await(next)
		if i < handOvers-1 {
			b.leave(next)
		}
	}
	t.quiet(b.driver.Exchanges)
	used := a.driver.Exchanges() + b.driver.Exchanges() - before
	t.FatalIf(used > handOvers*most, "%d hand-overs took %d exchanges with %d waiters", handOvers, used, n)
	cost("Leave of a waiting ticket", b, func() { b.leave(waiting[n/2]) })
	cost("Ask", a, func() {
		t.OK(a.driver.Ask(t.Ctx, "q", waiting[n-1].ID, driver.Revoke), "Ask")
	})
	cost("Load", a, func() { t.holds(a.driver, "c", driver.Cell{}) })
	cost("Swap", a, func() { t.swap(a.driver, set("c", 0, "v")) })
	cost("Open", a, func() { t.session(a.driver, t.TTL) })
	cost("Close", a, func() {
		a.close()
	})
})

// The work of a hand-over does not grow with the length of the line.
var _ = rules.Add(rule{Name: "HandOverCost", Says: []string{
	"While it waits it causes no exchanges but those of Renew and of its own grant.",
	"Leave takes the ticket out of its queue and grants whoever is next in the same exchange.",
}}, func(t *trial) {
	for _, n := range []int{10, t.size(1000, 100)} {
		clients := []*client{t.client(), t.client(), t.client()}
		queue := fmt.Sprintf("of %d", n)
		front := clients[0].hold(t.exclusive(queue))
		tickets := line(n, clients, func() driver.Request { return t.exclusive(queue) })
		ctx, cancel := context.WithCancel(t.Ctx)
		granted := make([]<-chan error, n)
		for i := range n {
			granted[i] = t.Done(func() error { return suite.Err(clients[i%3].Await(ctx, tickets[i])) })
		}
		count := func() uint64 { return spent(clients) }
		last := t.quiet(count)
		clients[0].leave(front)
		const handOvers = 9
		for i := range handOvers {
			t.OK(<-granted[i], "Await of the next ticket, number %d", i+1)
			clients[i%3].leave(tickets[i])
		}
		t.OK(<-granted[handOvers], "Await of the ticket after %d hand-overs", handOvers)
		used := count() - last
		cancel()
		t.FatalIf(used > 6*(handOvers+1),
			"%d hand-overs in front of %d waiters took %d exchanges", handOvers+1, n, used)
		t.Logf("%d hand-overs in front of %d waiters took %d exchanges", handOvers+1, n, used)
	}
})

const deadInFront = "Each session in front of it that dies causes a few more, once."

// A death in front is looked at, and not again and again. A second line, behind the living, has the price of waiting
// without a death.
var _ = rules.Add(rule{Name: "DeadInFront", Says: []string{deadInFront}}, func(t *trial) {
	const dead, most = 2, 4
	lives := t.client()
	d, die := t.guest()
	fronts := map[string][dead]*client{"of the living": {lives, lives}, "of the dead": {t.session(d, t.TTL), t.mortal()}}
	lines, first := map[string][]*client{}, map[string]driver.Ticket{}
	var beats []func()
	for queue, front := range fronts {
		if t.fixes() { // one that has died holds on, too
			first[queue] = front[0].hold(t.fixed(queue, 10*limit))
		} else {
			first[queue] = lives.hold(t.exclusive(queue))
		}
		for _, c := range front {
			c.wait(t.exclusive(queue))
		}
		for range 4 {
			c := t.client()
			tk := c.wait(t.exclusive(queue))
			c.awaits(tk)
			lines[queue] = append(lines[queue], c)
			beats = append(beats, func() { c.keeps(tk) })
		}
	}
	t.OK(die(), "Close")
	var end driver.Instant
	t.Eventually("who waits in front and has died leaves", func() bool {
		for _, beat := range beats {
			beat()
		}
		time.Sleep(t.TTL / 6)
		if end == 0 && len(t.snapshot(lives.driver, "of the dead").Members) == 1+len(lines["of the dead"]) {
			end = lives.driver.Now().Add(t.TTL)
		}
		return end > 0 && lives.driver.Now() > end
	})
	usual, used := spent(lines["of the living"]), spent(lines["of the dead"])
	t.Logf("%d exchanges behind those that have died, %d behind others", used, usual)
	t.FatalIf(used > usual+uint64(len(beats)/2*dead*most), "%d clients that wait behind %d that have died have caused %d exchanges, and %d in front of whom all live", len(beats)/2, dead, used, usual)
})
