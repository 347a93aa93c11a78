package drivertest

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const joinAgainSays = "Repeated with the same ID it finds its own ticket, held or waiting, and never makes a second, and of what else the request says only NoWait counts: the ticket stays as it was joined."

var _ = rules.Add(rule{Name: "JoinIsIdempotent", Exclusive: true, Says: []string{joinAgainSays}}, func(t *trial) {
	a, b := t.client(), t.client()
	r1, r2, r3 := t.exclusive("q"), t.exclusive("q"), t.exclusive("q")
	first := a.hold(r1)
	got := a.hold(again(r1))
	t.FatalIf(got.Token != first.Token, "repeated Join changed the token from %d to %d", first.Token, got.Token)
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
	got = b.await(second)
	t.FatalIf(got.Token != granted.Token, "Join found the token %d, Await %d", granted.Token, got.Token)
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
	got := a.hold(again(r))
	t.FatalIf(got.Token != first.Token, "repeated Join changed the token from %d to %d", first.Token, got.Token)
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

var _ = rules.Add(rule{Name: "AwaitReturnsOnceHeld", Exclusive: true, Across: true, Says: []string{
	"Await returns once the ticket is held.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	a.await(held) // it is already
	for i := range t.size(60, 10) {
		// The grant may come before, during or after the beginning of Await.
		next := b.wait(t.exclusive("q"))
		done := b.awaits(next)
		if i%4 == 0 {
			time.Sleep(time.Millisecond)
		}
		a.leave(held)
		a.okIn("q", <-done, "Await that begins while the ticket is granted")
		a, b, held = b, a, next
	}
})

var _ = rules.Add(rule{Name: "AwaitOfAGoneTicket", Exclusive: true, Says: []string{
	"A ticket that does not stand (any more): ErrGone.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	a.gone(driver.Ticket{ID: newID(), Queue: "q"})
	held := a.hold(t.exclusive("q"))
	a.gone(driver.Ticket{ID: newID(), Queue: "q"})
	waiting := b.wait(t.exclusive("q"))
	done := b.awaits(waiting)
	b.waits(b.wait(t.exclusive("q")))
	b.leave(waiting) // while somebody awaits it
	t.Is(<-done, driver.ErrGone, "Await of a ticket that leaves meanwhile")
	a.leave(held)
	a.gone(held)
})

var _ = rules.Add(rule{Name: "AwaitDoesNotLeave", Exclusive: true, Says: []string{
	"Returning for another reason, such as the end of ctx, does not leave the queue.",
}}, func(t *trial) {
	a, b, held, next := t.holderAndWaiter("q")
	last := a.wait(t.exclusive("q"))
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Ctx, time.Millisecond)
		t.Is(suite.Of(b.Await(ctx, next)), context.DeadlineExceeded, "Await after the end of its context")
		cancel()
	}
	t.stands(a.driver, "q", []driver.Ticket{held}, []driver.Ticket{next, last})
	a.leave(held)
	b.await(next)
})

const lateJoin = "A ticket that does not stand: ErrGone, and a Join with this ID that arrives within one TTL is refused."

var _ = rules.Add(rule{Name: "LeaveIsIdempotent", Exclusive: true, Across: true, Says: []string{
	lateJoin,
}}, func(t *trial) {
	a, b, first, second := t.holderAndWaiter("q")
	third := a.wait(t.exclusive("q"))
	a.leave(first)
	for range 3 {
		t.Is(a.Leave(t.Ctx, first, true), driver.ErrGone, "Leave of a ticket that has left")
	}
	t.stands(a.driver, "q", []driver.Ticket{second}, []driver.Ticket{third})
	a.leave(third) // while it waits
	t.Is(a.Leave(t.Ctx, third, true), driver.ErrGone, "Leave of a waiting ticket that has left")
	a.gone(third)
	b.await(second)
})

var _ = rules.Add(rule{Name: "LeaveBeforeItsJoin", Exclusive: true, Says: []string{
	lateJoin,
	"A ticket that has left, or that was left before this Join arrived: ErrGone, for at least one TTL.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	early := func(r driver.Request) {
		t.Is(a.Leave(t.Ctx, driver.Ticket{ID: r.ID, Queue: r.Queue}, true), driver.ErrGone, "Leave of a ticket that never was")
		t.Is(suite.Of(a.Join(t.Ctx, r)), driver.ErrGone, "a Join (Retry %v, NoWait %v) that arrives after its Leave", r.Retry, r.NoWait)
	}
	for _, request := range []driver.Request{
		t.exclusive("q"), again(t.exclusive("q")), nowait(t.exclusive("q")), again(nowait(t.exclusive("q"))),
	} {
		early(request)
		t.stands(a.driver, "q", nil, nil)
	}
	a.leave(a.hold(t.exclusive("q")))

	// Others are there, too.
	held := []driver.Ticket{b.hold(t.exclusive("q"))}
	var waiting []driver.Ticket
	for range 2 {
		early(t.exclusive("q"))
		early(again(t.exclusive("q")))
		t.stands(a.driver, "q", held, waiting)
		waiting = append(waiting, b.wait(t.exclusive("q")))
	}
})

var _ = rules.Add(rule{Name: "LeftStaysLeft", Exclusive: true, Says: []string{
	"A ticket that has left, or that was left before this Join arrived: ErrGone, for at least one TTL.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	refused := func(about string, c *client, r driver.Request) {
		for _, r := range []driver.Request{again(r), again(nowait(r))} {
			t.Is(suite.Of(c.Join(t.Ctx, r)), driver.ErrGone, "Join of a ticket that has left %s (NoWait %v)", about, r.NoWait)
		}
	}
	r1, r2, r3, r4 := t.exclusive("q"), t.exclusive("q"), t.exclusive("q"), t.exclusive("q")
	first, second := a.hold(r1), b.wait(r2)
	third := a.wait(r3)
	fourth := b.wait(r4)
	a.leave(first)
	refused("while held", a, r1)
	b.leave(fourth)
	refused("while waiting", b, r4)
	a.ask(second, driver.Force)
	refused("by force", b, r2)
	a.await(third)
	r5 := t.exclusive("q")
	fifth := b.wait(r5)
	a.ask(fifth, driver.Evict)
	refused("by eviction", b, r5)

	// An ended Hold, too.
	if !t.fixes() {
		return
	}
	r6 := t.exclusive("r")
	r6.Hold = t.TTL / 4
	sixth := a.hold(r6)
	t.Eventually("the end of a Hold", func() bool { return len(t.snapshot(a.driver, "r").Members) == 0 })
	refused("by its Hold", a, r6)
	a.gone(sixth)
})

// The end of a ticket is heard, by whatever way a backend has, while its Join is repeated.
var _ = rules.Add(rule{Name: "LeftWhileItsJoinIsRepeated", Exclusive: true, Says: []string{
	"A ticket that has left, or that was left before this Join arrived: ErrGone, for at least one TTL.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	for range t.size(100, 20) {
		r := t.exclusive("q")
		held := a.hold(r)
		forced := t.Done(func() error { return b.driver.Ask(t.Ctx, "q", r.ID, driver.Force) })
		for ; ; runtime.Gosched() {
			tk, err := a.Join(t.Ctx, again(r))
			if errors.Is(err, driver.ErrGone) {
				break
			}
			t.FatalIf(err != nil || tk.Token != held.Token && tk.Held,
				"Join of a ticket with token %d that is taken away: %+v, %v", held.Token, tk, err)
		}
		t.OK(<-forced, "Ask to force")
		t.stands(a.driver, "q", nil, nil)
	}
})

var _ = rules.Add(rule{Name: "LeaveGrantsTheNext", Says: []string{
	"Leave takes the ticket out of its queue and grants whoever is next in the same exchange.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	first := a.hold(writer("q"))
	var readers []driver.Ticket
	for range 20 {
		readers = append(readers, b.wait(reader("q")))
	}
	last := b.wait(writer("q"))
	a.leave(first)
	t.stands(a.driver, "q", readers, []driver.Ticket{last}) // before anybody awaits
})

var _ = rules.Add(rule{Name: "LeaveOfAnotherSession", Exclusive: true, Says: []string{
	"It also serves tickets of other sessions, by their ID, if they have a fixed end.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	r := t.exclusive("q")
	r.Hold = 10 * limit
	held := a.hold(r)
	next := b.wait(t.exclusive("q"))
	b.leave(driver.Ticket{ID: held.ID, Queue: "q"})
	b.await(next)
	a.gone(held)

	// One without a fixed end is not another session's to leave.
	t.FatalIf(a.Leave(t.Ctx, driver.Ticket{ID: next.ID, Queue: "q"}, true) == nil,
		"Leave of another session's ticket without a fixed end succeeds")
	t.stands(a.driver, "q", []driver.Ticket{next}, nil)
	t.OK(b.Keep(t.Ctx, next, 10*limit), "Keep")
	a.leave(driver.Ticket{ID: next.ID, Queue: "q"})
	t.stands(a.driver, "q", nil, nil)
})

var _ = rules.Add(rule{Name: "Shrink", Says: []string{
	"Shrink reduces a ticket to fewer units, at least 1, without giving up its place, and grants whoever now fits.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	w := a.hold(writer("q"))
	r1, r2 := b.wait(reader("q")), b.wait(reader("q"))
	w2 := b.wait(writer("q"))
	a.shrink(w, 1)
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
	b.shrink(second, 3)
	t.stands(a.driver, "p", []driver.Ticket{first}, []driver.Ticket{second, third})
	b.shrink(second, 1)
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
		got := t.snapshot(a.driver, "q").Members[0].Units
		t.FatalIf(got != want, "the ticket has %d units, not %d", got, want)
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
