package drivertest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const theRule = "A ticket is held if and only if the units of all tickets of its queue, up to and including it, fit the capacity."

var _ = rules.Add(rule{Name: "Exclusion", Exclusive: true, Across: true, Says: []string{
	theRule,
	"Join puts a ticket at the end of a queue and reports whether it is held.",
}}, func(t *trial) {
	a, b, first, second := t.holderAndWaiter("q")
	third := a.wait(t.exclusive("q"))
	b.waits(second)
	a.waits(third)
	other := b.hold(t.exclusive("another"))

	a.leave(first)
	b.await(second)
	a.waits(third)
	b.leave(second)
	a.await(third)
	a.leave(third)
	b.leave(other)
	t.stands(a.driver, "q", nil, nil)
	b.leave(b.hold(t.exclusive("q")))
})

// Identity is the ticket, never the session or the driver.
var _ = rules.Add(rule{Name: "ExclusionWithinASession", Exclusive: true, Says: []string{theRule}}, func(t *trial) {
	a := t.client()
	first := a.hold(t.exclusive("q"))
	second := a.wait(t.exclusive("q"))
	sibling := t.session(a.driver, 10*limit)
	third := sibling.wait(t.exclusive("q"))
	a.waits(second)
	a.leave(first)
	a.await(second)
	sibling.waits(third)
	a.leave(second)
	sibling.await(third)
})

var _ = rules.Add(rule{Name: "PrefixOfTheQueue", Says: []string{theRule}}, func(t *trial) {
	for _, c := range []struct {
		about    string
		capacity int64
		units    []int64
		held     int // so many in front are held
		leave    int // then this one leaves
		after    int // and so many of the others are held
	}{
		{"exactly full", 10, []int64{4, 4, 2, 1}, 3, 0, 3},
		{"a small one does not pass a big one", 10, []int64{4, 4, 4, 1, 1}, 2, 0, 4},
		{"a big one in front keeps all behind it waiting", 10, []int64{1, 10, 1, 1}, 1, 0, 1},
		{"a waiter that leaves lets those behind it in", 10, []int64{1, 10, 1, 1}, 1, 1, 3},
		{"a waiter in the middle leaves and nobody moves", 10, []int64{9, 2, 1, 1}, 1, 2, 1},
		{"the last waiter leaves", 3, []int64{2, 2}, 1, 1, 1},
		{"one leaves and two come in", 5, []int64{4, 1, 2, 2, 1}, 2, 0, 3},
		{"capacity one", 1, []int64{1, 1, 1}, 1, 0, 1},
		{"all units at once", 7, []int64{7, 7}, 1, 0, 1},
	} {
		a, b := t.client(), t.client()
		var all []driver.Ticket
		clients := []*client{a, b}
		for i, u := range c.units {
			r := permits(c.about, u, c.capacity)
			if i < c.held {
				all = append(all, clients[i%2].hold(r))
			} else {
				all = append(all, clients[i%2].wait(r))
			}
		}
		t.stands(a.driver, c.about, all[:c.held], all[c.held:])
		clients[c.leave%2].leave(all[c.leave])
		rest := append(append([]driver.Ticket{}, all[:c.leave]...), all[c.leave+1:]...)
		t.stands(b.driver, c.about, rest[:c.after], rest[c.after:])
	}
})

var _ = rules.Add(rule{Name: "ReadersAndWriters", Says: []string{
	theRule,
	"A mutex is a queue of capacity 1 with tickets of 1 unit; a semaphore of n has capacity n; a read-write lock has [RWCapacity], of which a reader takes 1 and a writer all.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	r1, r2 := a.hold(reader("q")), b.hold(reader("q"))
	w1 := a.wait(writer("q"))
	r3 := b.wait(reader("q")) // behind a writer, although only readers hold
	w2 := b.wait(writer("q"))
	a.leave(r1)
	a.waits(w1)
	b.leave(r2)
	a.await(w1)
	b.waits(r3)
	a.leave(w1)
	b.await(r3)
	b.waits(w2)
	r4 := a.wait(reader("q"))
	b.leave(w2) // never held: the reader behind it joins the one in front
	a.await(r4)
	t.stands(a.driver, "q", []driver.Ticket{r3, r4}, nil)
})

// Sums of units must not run over.
var _ = rules.Add(rule{Name: "LargestCapacity", Says: []string{
	theRule,
	"MaxCapacity is the largest capacity: some backends count with floating point numbers, which are exact up to here.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	const most = driver.MaxCapacity
	first := a.hold(permits("q", most, most))
	second := b.wait(permits("q", most, most))
	third := a.wait(permits("q", most, most))
	fourth := b.wait(permits("q", 1, most))
	t.stands(a.driver, "q", []driver.Ticket{first}, []driver.Ticket{second, third, fourth})
	b.leave(second)
	a.waits(third)
	a.leave(first)
	a.await(third)
	b.waits(fourth)
	a.leave(third)
	b.await(fourth)
	a.hold(permits("q", most-1, most))
	b.wait(permits("q", 1, most))
})

var _ = rules.Add(rule{Name: "HeldStaysHeld", Exclusive: true, Says: []string{
	"Grants are strictly first come, first served, and a ticket that is held stays held until it leaves.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	r := t.exclusive("q")
	first := a.hold(r)
	for i := range t.size(100, 20) {
		second := b.wait(t.exclusive("q"))
		if i%2 == 0 {
			b.leave(second)
		}
		got := a.join(again(r))
		t.FatalIf(!got.Held || got.Token != first.Token, "a held ticket became %+v while others came and went", got)
	}
})

const firstCome = "Grants are strictly first come, first served"

var _ = rules.Add(rule{Name: "Order", Exclusive: true, Across: true, Says: []string{firstCome}}, func(t *trial) {
	clients := []*client{t.client(), t.client(), t.client()}
	first := clients[0].hold(t.exclusive("q"))
	n := t.size(60, 15)
	tickets := line(n, clients, func() driver.Request { return t.exclusive("q") })
	var mu sync.Mutex
	var served []int
	clients[0].leave(first)
	t.Parallel(n, func(i int) {
		i = n - 1 - i // the last waits first
		c := clients[i%3]
		c.await(tickets[i])
		mu.Lock()
		served = append(served, i)
		mu.Unlock()
		c.leave(tickets[i])
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
		_, err := a.Join(t.Ctx, nowait(t.exclusive("q")))
		t.FatalIf(err == nil, "a Join with NoWait passed a ticket that waited")
		got := b.await(next)
		a.leave(late)
		b.leave(got)
		held = a.hold(t.exclusive("q"))
	}
})

const mismatchSays = "A queue that has tickets of another kind or capacity, or an ID whose ticket of this session stands in another queue: ErrMismatch."

var _ = rules.Add(rule{Name: "Mismatch", Says: []string{mismatchSays}}, func(t *trial) {
	a, b := t.client(), t.client()
	requests := map[string]driver.Request{
		"mutex":       mutex("q"),
		"election":    {Queue: "q", Kind: driver.Election, Units: 1, Capacity: 1},
		"1 permit":    permits("q", 1, 1),
		"5 permits":   permits("q", 1, 5),
		"6 permits":   permits("q", 1, 6),
		"reader":      reader("q"),
		"barrier":     {Queue: "q", Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity},
		"rw permits":  permits("q", 1, driver.RWCapacity),
		"all permits": permits("q", 7, 7),
	}
	for name, r := range requests {
		r.ID = newID()
		held := a.hold(r) // an empty queue forgets kind and capacity
		for other, r := range requests {
			if other == name {
				continue
			}
			for _, r := range []driver.Request{r, nowait(r)} {
				r.ID = newID()
				t.Is(suite.Of(b.Join(t.Ctx, r)), driver.ErrMismatch, "Join as %s while a ticket stands as %s", other, name)
			}
		}
		t.stands(b.driver, "q", []driver.Ticket{held}, nil)
		a.leave(held)
	}
})

// The queue belongs to those who came first: who takes it for something else is refused, and
// nobody else because of that, also if both come at the same moment.
var _ = rules.Add(rule{Name: "MismatchOfALatecomer", Says: []string{mismatchSays}}, func(t *trial) {
	first, right, wrong := t.client(), t.client(), t.client()
	held := first.hold(permits("q", 1, 5))
	for n := range t.size(30, 10) {
		late := permits("q", 1, 6)
		if n%2 == 1 {
			late = mutex("q")
		}
		refused := t.Done(func() error { return suite.Err(wrong.Join(t.Ctx, late)) })
		for _, r := range []driver.Request{permits("q", 1, 5), nowait(permits("q", 1, 5)), permits("q", 5, 5)} {
			tk, err := right.Join(t.Ctx, r)
			t.OK(err, "Join of %d of 5 permits while a %s of %d is refused", r.Units, late.Kind, late.Capacity)
			right.leave(tk)
		}
		t.Is(<-refused, driver.ErrMismatch, "Join as a %s of %d while tickets stand as 5 permits", late.Kind, late.Capacity)
	}
	t.stands(first.driver, "q", []driver.Ticket{held}, nil)
})

// A ticket is in one queue, and is not looked for in another.
var _ = rules.Add(rule{Name: "JoinInAnotherQueue", Exclusive: true, Says: []string{mismatchSays}}, func(t *trial) {
	a := t.client()
	r1, r2 := t.exclusive("q"), t.exclusive("q")
	held, waiting := a.hold(r1), a.wait(r2)
	for _, r := range []driver.Request{r1, r2} {
		r.Queue = "r"
		for _, r := range []driver.Request{again(r), again(nowait(r))} {
			t.Is(suite.Of(a.Join(t.Ctx, r)), driver.ErrMismatch, "Join (NoWait %v) with an ID that stands in another queue", r.NoWait)
			t.stands(a.driver, "q", []driver.Ticket{held}, []driver.Ticket{waiting})
			t.stands(a.driver, "r", nil, nil)
		}
	}
	a.hold(again(r1))
	a.leave(held)
	a.await(waiting)
})

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
	t.Parallel(n+1, func(i int) {
		if i == n {
			time.Sleep(time.Millisecond) // some wait already
			served.Add(1)
			t.OK(clients[0].Leave(ctx, front, true), "Leave")
			return
		}
		c := clients[i%sessions]
		t.OK(suite.Err(c.Await(ctx, tickets[i])), "Await")
		progress()
		turn := served.Add(1)
		t.FatalIf(turn != int64(i+2), "number %d is served as the %dth, the holder included", i+2, turn)
		t.OK(c.Leave(ctx, tickets[i], true), "Leave")
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
	leaving := t.Go(func() {
		time.Sleep(time.Millisecond) // some wait already
		clients[0].leave(w)
	})
	t.Parallel(n, func(i int) { clients[i%3].await(readers[i]) })
	leaving()
	t.Allow(0)
	clients[0].waits(last)
	t.Parallel(n, func(i int) { clients[i%3].leave(readers[i]) })
	clients[0].await(last)
})
