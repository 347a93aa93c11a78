package drivertest

import (
	"errors"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const joinAgainSays = "Repeated with the same ID it finds its own ticket, held or waiting, and never makes a second, and of what else the request says only NoWait counts: the ticket stays as it was joined."

var _ = rules.Add(rule{Name: "JoinIsIdempotent", Exclusive: true, Says: []string{joinAgainSays}}, func(t *trial) {
	a, b := t.client(), t.client()
	r1, r2, r3 := t.exclusive("q"), t.exclusive("q"), t.exclusive("q")
	first := a.hold(r1)
	if got := a.hold(again(r1)); got.Token != first.Token {
		t.Fatalf("repeated Join changed the token from %d to %d", first.Token, got.Token)
	}
	second := b.wait(r2)
	third := b.wait(r3)
	b.wait(again(r2))
	t.stands(a.driver, "q", []driver.Ticket{first}, []driver.Ticket{second, third})
	a.leave(first)
	var granted driver.Ticket
	t.Eventually("a Join that finds the grant without an Await", func() bool {
		granted = b.join(again(r2))
		return granted.Held
	})
	if got := b.await(second); got.Token != granted.Token {
		t.Fatalf("Join found the token %d, Await %d", granted.Token, got.Token)
	}
	b.hold(again(r2))
	b.leave(second)
	b.await(third)
	t.stands(a.driver, "q", []driver.Ticket{third}, nil)
})

// Whoever repeats a Join asks for what it has asked for.
var _ = rules.Add(rule{Name: "JoinStaysAsItWas", Says: []string{joinAgainSays}}, func(t *trial) {
	a := t.client()
	r1, r2 := permits("q", 3, 5), permits("q", 3, 5)
	r1.Note, r2.Note = []byte("first"), []byte("second")
	held, waiting := a.hold(r1), a.wait(r2)
	before := t.snapshot(a.driver, "q")
	same := func(about string) {
		t.Helper()
		after := t.snapshot(a.driver, "q")
		t.FatalIf(len(after.Members) != 2 || after.Kind != before.Kind || after.Capacity != before.Capacity,
			"Join, repeated with %s, made %+v of %+v", about, after, before)
		for i, m := range after.Members {
			was := before.Members[i]
			t.FatalIf(m.ID != was.ID || m.Units != was.Units || m.Held != was.Held || m.Token != was.Token || m.Fixed || string(m.Note) != string(was.Note),
				"Join, repeated with %s, made %+v of %+v", about, m, was)
		}
	}
	for _, r := range []driver.Request{r1, r2} {
		for about, other := range map[string]driver.Request{
			"fewer units": {Units: 1, Capacity: 5}, "more units": {Units: 5, Capacity: 5},
			"another note": {Units: 3, Capacity: 5, Note: []byte("another")}, "a Hold": {Units: 3, Capacity: 5, Hold: limit},
		} {
			other.ID, other.Queue, other.Kind, other.ReportDeath = r.ID, r.Queue, r.Kind, true
			if other.Hold > 0 && !t.fixes() {
				continue
			}
			tk, err := a.Join(t.Ctx, again(other))
			t.FatalIf(err != nil || tk.Held != (r.ID == held.ID), "Join, repeated with %s: %+v, %v", about, tk, err)
			same(about)
		}
		for about, other := range map[string]driver.Request{
			"another capacity": permits("q", 3, 6), "another kind": {Queue: "q", Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity},
		} {
			other.ID = r.ID
			t.OK(suite.Unless(suite.Err(a.Join(t.Ctx, again(other))), driver.ErrMismatch), "Join, repeated with %s", about)
			same(about)
		}
	}
	a.leave(held)
	a.await(waiting)
})

var _ = rules.Add(rule{Name: "NoWait", Exclusive: true, Says: []string{
	"Held by others and NoWait: ErrBusy, and no ticket stands",
	"it may count as left, and with Retry it does, since a Join sent before may yet arrive",
	"a NoWait ticket that is already in the queue is reported if held and leaves otherwise.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	r := nowait(t.exclusive("q"))
	first := a.hold(r)
	if got := a.hold(again(r)); got.Token != first.Token {
		t.Fatalf("repeated Join changed the token from %d to %d", first.Token, got.Token)
	}
	busy := nowait(t.exclusive("q"))
	t.Is(suite.Of(b.Join(t.Ctx, busy)), driver.ErrBusy, "Join with NoWait of a held queue")
	t.stands(b.driver, "q", []driver.Ticket{first}, nil)
	if _, err := b.Join(t.Ctx, again(busy)); !errors.Is(err, driver.ErrBusy) && !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Join with NoWait of a held queue, repeated: %v", err)
	}
	t.stands(b.driver, "q", []driver.Ticket{first}, nil)

	// The first of two that were sent may arrive last.
	for _, late := range []driver.Request{t.exclusive("q"), nowait(t.exclusive("q"))} {
		t.Is(suite.Of(b.Join(t.Ctx, again(nowait(late)))), driver.ErrBusy, "Join with NoWait of a held queue, of which the first is still to arrive")
		t.Is(suite.Of(b.Join(t.Ctx, late)), driver.ErrGone, "a Join (NoWait %v) that arrives after its repetition was busy", late.NoWait)
	}
	t.stands(b.driver, "q", []driver.Ticket{first}, nil)

	// A ticket that waits already is not left behind.
	r2, r3 := t.exclusive("q"), t.exclusive("q")
	b.wait(r2)
	third := b.wait(r3)
	t.Is(suite.Of(b.Join(t.Ctx, again(nowait(r2)))), driver.ErrBusy, "Join with NoWait of a ticket that waits")
	t.stands(b.driver, "q", []driver.Ticket{first}, []driver.Ticket{third})
	a.leave(first)
	b.await(third)
	b.hold(again(nowait(r3)))
})

// Permits that are free are given to NoWait; permits that are promised to a
// waiter are not.
var _ = rules.Add(rule{Name: "NoWaitKeepsOrder", Says: []string{
	"Held by others and NoWait: ErrBusy, and no ticket stands",
	firstCome,
}}, func(t *trial) {
	a, b := t.client(), t.client()
	first := a.hold(permits("q", 3, 5))
	small := b.hold(nowait(permits("q", 1, 5)))
	big := b.wait(permits("q", 4, 5))
	t.Is(suite.Of(a.Join(t.Ctx, nowait(permits("q", 1, 5)))), driver.ErrBusy, "Join with NoWait behind a ticket that waits")
	t.stands(a.driver, "q", []driver.Ticket{first, small}, []driver.Ticket{big})
})
