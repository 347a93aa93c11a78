package drivertest

import (
	"errors"
	"strings"

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

var impossibleRequests = rule{
	name: "ImpossibleRequests",
	says: []string{"1 <= Units <= Capacity <= MaxCapacity", "CheckName reports why the name of a queue is refused (ErrInvalid), the same on every backend.",
		"satisfies [CheckID]", "CheckID reports why an ID is refused (ErrInvalid), the same on every backend: it is 32 hexadecimal digits, in lower case."},
	check: func(t *trial) {
		a := t.client()
		for _, c := range []struct {
			about string
			r     driver.Request
		}{
			{"no units", permits("q", 0, 5)},
			{"negative units", permits("q", -1, 5)},
			{"more units than capacity", permits("q", 6, 5)},
			{"no capacity", permits("q", 0, 0)},
			{"negative capacity", permits("q", -1, -1)},
			{"too large a capacity", permits("q", 1, driver.MaxCapacity+1)},
			{"no kind", driver.Request{ID: newID(), Queue: "q", Units: 1, Capacity: 5}},
			{"a negative hold", driver.Request{ID: newID(), Queue: "q", Kind: driver.Semaphore, Units: 1, Capacity: 5, Hold: -1}},
			{"empty name", permits("", 1, 5)},
			{"a dot", permits("a/../b", 1, 5)},
			{"not UTF-8", permits("a\xff", 1, 5)},
			{"a control character", permits("a\x00b", 1, 5)},
			{"no ID", named("", permits("q", 1, 5))},
			{"a short ID", named(newID()[:31], permits("q", 1, 5))},
			{"a long ID", named(newID()+"0", permits("q", 1, 5))},
			{"an ID in upper case", named(strings.Repeat("A", 32), permits("q", 1, 5))},
			{"an ID of other letters", named(strings.Repeat("g", 32), permits("q", 1, 5))},
		} {
			if tk, err := a.Join(t.ctx, c.r); err == nil {
				t.Fatalf("Join with %s returned %+v", c.about, tk)
			} else if !errors.Is(err, driver.ErrInvalid) {
				t.Fatalf("Join with %s: %v; it must be ErrInvalid", c.about, err)
			}
		}
		t.stands(a.driver, "q", nil, nil)
		for _, id := range []string{"", newID()[:31], strings.Repeat("A", 32)} {
			for what, err := range map[string]error{
				"Leave": a.Leave(t.ctx, driver.Ticket{ID: id, Queue: "q"}, true),
				"Ask":   a.driver.Ask(t.ctx, "q", id, driver.Revoke),
				"Swap":  swapError(a.driver.Swap(t.ctx, driver.Swap{ID: id, Name: "c", Value: []byte("v")})),
			} {
				if !errors.Is(err, driver.ErrInvalid) {
					t.Fatalf("%s with the ID %q: %v; it must be ErrInvalid", what, id, err)
				}
			}
		}
		for _, name := range []string{"", "a/../b", "a\xff", "a\x00b"} {
			if _, err := a.driver.Swap(t.ctx, driver.Swap{ID: newID(), Name: name, Value: []byte("v")}); !errors.Is(err, driver.ErrInvalid) {
				t.Fatalf("Swap of the cell %q: %v; it must be ErrInvalid", name, err)
			}
			if _, err := a.driver.Load(t.ctx, name); !errors.Is(err, driver.ErrInvalid) {
				t.Fatalf("Load of the cell %q: %v; it must be ErrInvalid", name, err)
			}
		}
	},
}

func named(id string, r driver.Request) driver.Request {
	r.ID = id
	return r
}

func swapError(_ driver.Cell, err error) error { return err }
