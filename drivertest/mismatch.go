package drivertest

import (
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const mismatchSays = "A queue that has tickets of another kind or capacity, or an ID whose ticket of this session stands in another queue: ErrMismatch."

var _ = rules.Add(rule{Name: "Mismatch", Says: []string{mismatchSays}}, func(t *trial) {
	a, b := t.client(), t.client()
	requests := map[string]func() driver.Request{
		"mutex": func() driver.Request {
			return driver.Request{ID: newID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
		},
		"election": func() driver.Request {
			return driver.Request{ID: newID(), Queue: "q", Kind: driver.Election, Units: 1, Capacity: 1}
		},
		"1 permit":  func() driver.Request { return permits("q", 1, 1) },
		"5 permits": func() driver.Request { return permits("q", 1, 5) },
		"6 permits": func() driver.Request { return permits("q", 1, 6) },
		"reader":    func() driver.Request { return reader("q") },
		"barrier": func() driver.Request {
			return driver.Request{ID: newID(), Queue: "q", Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity}
		},
		"rw permits":  func() driver.Request { return permits("q", 1, driver.RWCapacity) },
		"all permits": func() driver.Request { return permits("q", 7, 7) },
	}
	for name, request := range requests {
		held := a.hold(request()) // an empty queue forgets kind and capacity
		for other, request := range requests {
			if other == name {
				continue
			}
			for _, r := range []driver.Request{request(), nowait(request())} {
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
			late = driver.Request{ID: newID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
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
