package drivertest

import "github.com/interlock-go/interlock/driver"

const theRule = "A ticket is held if and only if the units of all tickets of its queue, up to and including it, fit the capacity."

var _ = rules.Add(rule{Name: "Exclusion", Exclusive: true, Across: true, Says: []string{
	theRule,
	"Join puts a ticket at the end of a queue and reports whether it is held.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	first := a.hold(t.exclusive("q"))
	second := b.wait(t.exclusive("q"))
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
		if got := a.join(again(r)); !got.Held || got.Token != first.Token {
			t.Fatalf("a held ticket became %+v while others came and went", got)
		}
	}
})
