package drivertest

import "github.com/interlock-go/interlock/driver"

var _ = rules.Add(rule{Name: "Shrink", Says: []string{
	"Shrink reduces a ticket to fewer units, at least 1, without giving up its place, and grants whoever now fits.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	w := a.hold(writer("q"))
	r1, r2 := b.wait(reader("q")), b.wait(reader("q"))
	w2 := b.wait(writer("q"))
	t.OK(a.Shrink(t.Ctx, w, 1), "Shrink")
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
	t.OK(b.Shrink(t.Ctx, second, 3), "Shrink")
	t.stands(a.driver, "p", []driver.Ticket{first}, []driver.Ticket{second, third})
	t.OK(b.Shrink(t.Ctx, second, 1), "Shrink")
	t.stands(a.driver, "p", []driver.Ticket{first, second, third}, nil)
	b.await(second)
	b.await(third)
})

var _ = rules.Add(rule{Name: "ShrinkNeverGrows", Says: []string{
	"Asking for as many or more changes nothing.",
	"A ticket that does not stand: ErrGone.",
}}, func(t *trial) {
	a := t.client()
	tk := a.hold(permits("q", 3, 10))
	units := func(want int64) {
		t.Helper()
		if got := t.snapshot(a.driver, "q").Members[0].Units; got != want {
			t.Fatalf("the ticket has %d units, not %d", got, want)
		}
	}
	for _, more := range []int64{3, 4, 10, 11} {
		t.OK(a.Shrink(t.Ctx, tk, more), "Shrink of 3 units to %d", more)
		units(3)
	}
	for range 2 {
		t.OK(a.Shrink(t.Ctx, tk, 2), "Shrink, repeated")
		units(2)
	}
	a.leave(tk)
	t.Is(a.Shrink(t.Ctx, tk, 1), driver.ErrGone, "Shrink of a ticket that has left")
})
