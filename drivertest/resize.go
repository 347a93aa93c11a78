package drivertest

import (
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const resizeKeeps = "Resize gives a semaphore's queue a capacity and keeps it, over crashes and restarts: the queue does not forget it when it is empty, and a Join of another capacity is ErrMismatch then, too."

const (
	heldBeyond = "A ticket that is held stays held when the capacity is lowered, also beyond it, and no other is granted until it fits."
	neverFits  = "A ticket that waits for more units than the capacity leaves at once, as one that is evicted."
)

// resized gives a queue a capacity.
func (t *trial) resized(d driver.Driver, queue string, capacity int64) {
	t.OK(d.Resize(t.Ctx, queue, capacity), "Resize of %s to %d", queue, capacity)
}

// hasCapacity is what inspection shows of a queue.
func (t *trial) hasCapacity(d driver.Driver, queue string, capacity int64, resized bool) driver.Queue {
	q := t.snapshot(d, queue)
	t.FatalIf(q.Resized != resized || q.Kind != driver.Semaphore || q.Capacity != capacity,
		"%s is a semaphore of %d, resized: %v; inspection shows %+v", queue, capacity, resized, q)
	return q
}

var _ = rules.Add(rule{Name: "Resize", Says: []string{
	resizeKeeps,
	"Whoever now fits is granted.",
	heldBeyond,
	neverFits,
	"A queue of another kind that has tickets: ErrMismatch.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	three, four, one := permits("q", 3, 5), permits("q", 4, 5), permits("q", 1, 5)
	first, second, third := a.hold(three), b.wait(four), b.wait(one)
	t.resized(a.driver, "q", 7)
	b.await(second)
	t.stands(a.driver, "q", []driver.Ticket{first, second}, []driver.Ticket{third})
	for range 2 {
		t.resized(b.driver, "q", 8)
		b.await(third)
		t.stands(b.driver, "q", []driver.Ticket{first, second, third}, nil)
	}

	// It is lowered below what is held.
	t.resized(a.driver, "q", 2)
	t.hasCapacity(b.driver, "q", 2, true)
	t.stands(a.driver, "q", []driver.Ticket{first, second, third}, nil)
	both, last := a.wait(permits("q", 2, 2)), b.wait(permits("q", 1, 2))
	t.Is(suite.Of(a.Join(t.Ctx, permits("q", 1, 8))), driver.ErrMismatch, "Join of 1 of 8 permits, which are 2 by now")
	if got := a.hold(again(three)); got.Token != first.Token {
		t.Fatalf("a Join that is repeated after the capacity has changed finds the token %d, not %d", got.Token, first.Token)
	}
	a.renew(first, both)
	b.renew(second, third, last)
	a.leave(first)
	b.leave(second)
	t.stands(b.driver, "q", []driver.Ticket{third}, []driver.Ticket{both, last}) // 1 and 2 of 2 do not fit
	b.leave(third)
	a.await(both)
	b.waits(last)
	t.stands(a.driver, "q", []driver.Ticket{both}, []driver.Ticket{last})
	a.leave(both)
	b.await(last)
	b.leave(last)

	// Whoever waits for more than there can be leaves, and keeps nobody out.
	held := a.hold(permits("r", 2, 5))
	heavy, light := b.wait(permits("r", 4, 5)), a.wait(permits("r", 1, 5))
	t.resized(b.driver, "r", 3)
	t.Is(suite.Of(b.Await(t.Ctx, heavy)), driver.ErrGone, "Await of a ticket of 4 units, while the capacity is 3")
	a.await(light)
	t.stands(a.driver, "r", []driver.Ticket{held, light}, nil)

	// A Join whose answer was lost finds its ticket, whatever the capacity is by then.
	if t.world.Late != nil {
		if r := permits("late", 1, 5); a.unanswered(r, b) {
			t.resized(b.driver, "late", 7)
			var found driver.Ticket
			if err := t.known(func() (err error) { found, err = a.Join(t.Ctx, again(r)); return err }); err != nil || !found.Held {
				t.Fatalf("a Join whose answer was lost, repeated after the capacity has changed: %+v, %v", found, err)
			}
			t.stands(b.driver, "late", []driver.Ticket{found}, nil)
		}
	}

	// A ticket that waits for too many units leaves a long line, too, also from its end.
	held = a.hold(permits("s", 2, 5))
	var line, stay []driver.Ticket
	for i := range 120 {
		units := int64(4 - i%2)
		line = append(line, b.wait(permits("s", units, 5)))
		if i%20 == 0 {
			stay = append(stay, a.wait(permits("s", 1, 5)))
		}
	}
	t.resized(a.driver, "s", 2)
	t.stands(b.driver, "s", []driver.Ticket{held}, stay)
	b.says(driver.Gone, line...)

	// More is held than the capacity, also when that is not kept any more.
	t.resized(a.driver, "s", 5)
	a.await(stay[2])
	t.resized(b.driver, "s", 2)
	t.resized(b.driver, "s", 0)
	a.leave(held)
	t.stands(b.driver, "s", stay[:3], stay[3:])
	a.leave(stay[0])
	a.leave(stay[1])
	a.await(stay[3])
	t.stands(b.driver, "s", stay[2:4], stay[4:])

	// A queue without tickets, and without a capacity that is kept, is of no kind.
	t.resized(a.driver, "empty", 3)
	t.resized(b.driver, "empty", 0)
	q := t.snapshot(a.driver, "empty")
	t.FatalIf(q.Kind != "" || q.Capacity != 0, "an empty queue whose capacity is not kept any more is %+v", q)

	mutex := a.hold(mutex("m"))
	t.Is(b.driver.Resize(t.Ctx, "m", 2), driver.ErrMismatch, "Resize of a mutex")
	t.stands(a.driver, "m", []driver.Ticket{mutex}, nil)
})

var _ = rules.Add(rule{Name: "ResizeIsKept", Says: []string{
	resizeKeeps,
	"Another capacity is another state for Follow.",
	"Capacity 0 undoes that: a queue that has tickets has the same capacity, and forgets it when it is empty.",
	"Capacity is that of Resize, which is kept",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	refused := func(of int64, when string) {
		for _, r := range []driver.Request{permits("q", 1, of), nowait(permits("q", 1, of))} {
			t.Is(suite.Of(b.Join(t.Ctx, r)), driver.ErrMismatch, "Join of 1 of %d permits %s", of, when)
		}
	}
	t.resized(a.driver, "q", 0) // nothing is kept of it
	empty := t.snapshot(b.driver, "q")
	for _, capacity := range []int64{4, 3} { // of a queue that never was, and of an empty one
		t.resized(a.driver, "q", capacity)
		q, err := b.driver.Follow(t.Ctx, "q", empty.Version)
		t.FatalIf(err != nil || q.Capacity != capacity || len(q.Members) > 0,
			"Follow of an empty queue that was resized to %d: %+v, %v", capacity, q, err)
		empty = q
		t.hasCapacity(a.driver, "q", capacity, true)
		refused(5, "in an empty queue that was resized")
		t.Is(suite.Of(b.Join(t.Ctx, mutex("q"))), driver.ErrMismatch, "Join of a mutex in an empty queue that was resized")
		for _, c := range []*client{a, b, t.client()} {
			c.leave(c.hold(permits("q", capacity, capacity)))
			refused(5, "in a queue that was resized, and is empty again")
		}
	}
	t.queues(b.driver, nil, "")

	held := a.hold(permits("q", 1, 3))
	t.resized(b.driver, "q", 0)
	t.hasCapacity(a.driver, "q", 3, false)
	refused(5, "in a queue of 3 that has a ticket")
	b.leave(b.hold(permits("q", 1, 3)))
	a.leave(held)
	q := t.snapshot(a.driver, "q")
	t.FatalIf(q.Resized, "an empty queue that was resized to 0 is %+v", q)
	b.leave(b.hold(permits("q", 5, 5)))
	t.resized(a.driver, "q", 2)
	t.resized(a.driver, "q", 0)
	a.leave(a.hold(permits("q", 5, 5)))
})
