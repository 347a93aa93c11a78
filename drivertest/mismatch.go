package drivertest

import (
	"errors"

	"github.com/interlock-go/interlock/driver"
)

const mismatchSays = "A queue that has tickets of another kind or capacity, or an ID whose ticket of this session stands in another queue: ErrMismatch."

var mismatch = rule{
	name: "Mismatch",
	says: []string{mismatchSays},
	check: func(t *trial) {
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
					if _, err := b.Join(t.ctx, r); !errors.Is(err, driver.ErrMismatch) {
						t.Fatalf("Join as %s while a ticket stands as %s: %v", other, name, err)
					}
				}
			}
			t.stands(b.driver, "q", []driver.Ticket{held}, nil)
			a.leave(held)
		}
	},
}

// The queue belongs to those who came first: who takes it for something else is refused, and
// nobody else because of that, also if both come at the same moment.
var mismatchOfALatecomer = rule{
	name: "MismatchOfALatecomer",
	says: []string{mismatchSays},
	check: func(t *trial) {
		first, right, wrong := t.client(), t.client(), t.client()
		held := first.hold(permits("q", 1, 5))
		for n := range t.size(30, 10) {
			late := permits("q", 1, 6)
			if n%2 == 1 {
				late = driver.Request{ID: newID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
			}
			refused := make(chan error, 1)
			t.calls.Go(func() {
				_, err := wrong.Join(t.ctx, late)
				refused <- err
			})
			for _, r := range []driver.Request{permits("q", 1, 5), nowait(permits("q", 1, 5)), permits("q", 5, 5)} {
				tk, err := right.Join(t.ctx, r)
				if err != nil {
					t.Fatalf("Join of %d of 5 permits while a %s of %d is refused: %v", r.Units, late.Kind, late.Capacity, err)
				}
				right.leave(tk)
			}
			if err := <-refused; !errors.Is(err, driver.ErrMismatch) {
				t.Fatalf("Join as a %s of %d while tickets stand as 5 permits: %v", late.Kind, late.Capacity, err)
			}
		}
		t.stands(first.driver, "q", []driver.Ticket{held}, nil)
	},
}

// A ticket is in one queue, and is not looked for in another.
var joinInAnotherQueue = rule{
	name:      "JoinInAnotherQueue",
	says:      []string{mismatchSays},
	exclusive: true,
	check: func(t *trial) {
		a := t.client()
		r1, r2 := t.exclusive("q"), t.exclusive("q")
		held, waiting := a.hold(r1), a.wait(r2)
		for _, r := range []driver.Request{r1, r2} {
			r.Queue = "r"
			for _, r := range []driver.Request{again(r), again(nowait(r))} {
				if tk, err := a.Join(t.ctx, r); !errors.Is(err, driver.ErrMismatch) {
					t.Fatalf("Join (NoWait %v) with an ID that stands in another queue: %+v, %v", r.NoWait, tk, err)
				}
				t.stands(a.driver, "q", []driver.Ticket{held}, []driver.Ticket{waiting})
				t.stands(a.driver, "r", nil, nil)
			}
		}
		a.hold(again(r1))
		a.leave(held)
		a.await(waiting)
	},
}
