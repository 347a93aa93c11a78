package drivertest

import (
	"errors"

	"github.com/interlock-go/interlock/driver"
)

var shrink = rule{
	name: "Shrink",
	says: []string{"Shrink reduces a ticket to fewer units, at least 1, without giving up its place, and grants whoever now fits."},
	check: func(t *trial) {
		a, b := t.client(), t.client()
		w := a.hold(writer("q"))
		r1, r2 := b.wait(reader("q")), b.wait(reader("q"))
		w2 := b.wait(writer("q"))
		if err := a.Shrink(t.ctx, w, 1); err != nil {
			t.Fatalf("Shrink: %v", err)
		}
		b.await(r1)
		b.await(r2)
		t.stands(a.driver, "q", []driver.Ticket{w, r1, r2}, []driver.Ticket{w2})
		a.await(w) // it still holds
		b.leave(r1)
		b.leave(r2)
		b.waits(w2)
		a.leave(w)
		b.await(w2)

		// A ticket that waits can shrink, too, and keeps its place.
		first := a.hold(permits("p", 3, 5))
		second := b.wait(permits("p", 4, 5))
		third := b.wait(permits("p", 1, 5))
		if err := b.Shrink(t.ctx, second, 3); err != nil {
			t.Fatalf("Shrink: %v", err)
		}
		t.stands(a.driver, "p", []driver.Ticket{first}, []driver.Ticket{second, third})
		if err := b.Shrink(t.ctx, second, 1); err != nil {
			t.Fatalf("Shrink: %v", err)
		}
		t.stands(a.driver, "p", []driver.Ticket{first, second, third}, nil)
		b.await(second)
		b.await(third)
	},
}

var shrinkNeverGrows = rule{
	name: "ShrinkNeverGrows",
	says: []string{"Asking for as many or more changes nothing.", "A ticket that does not stand: ErrGone."},
	check: func(t *trial) {
		a := t.client()
		tk := a.hold(permits("q", 3, 10))
		units := func(want int64) {
			t.Helper()
			if got := t.snapshot(a.driver, "q").Members[0].Units; got != want {
				t.Fatalf("the ticket has %d units, not %d", got, want)
			}
		}
		for _, more := range []int64{3, 4, 10, 11} {
			if err := a.Shrink(t.ctx, tk, more); err != nil {
				t.Fatalf("Shrink of 3 units to %d: %v", more, err)
			}
			units(3)
		}
		for range 2 {
			if err := a.Shrink(t.ctx, tk, 2); err != nil {
				t.Fatalf("Shrink, repeated: %v", err)
			}
			units(2)
		}
		a.leave(tk)
		if err := a.Shrink(t.ctx, tk, 1); !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Shrink of a ticket that has left: %v", err)
		}
	},
}
