package drivertest

import (
	"errors"
	"runtime"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const lateJoin = "A ticket that does not stand: ErrGone, and a Join with this ID that arrives within one TTL is refused."

var _ = rules.Add(rule{Name: "LeaveIsIdempotent", Exclusive: true, Across: true, Says: []string{
	lateJoin,
}}, func(t *trial) {
	a, b := t.client(), t.client()
	first := a.hold(t.exclusive("q"))
	second := b.wait(t.exclusive("q"))
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
		t.Helper()
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
		t.Helper()
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
	t.OK(a.driver.Ask(t.Ctx, "q", second.ID, driver.Force), "Ask to force")
	refused("by force", b, r2)
	a.await(third)
	r5 := t.exclusive("q")
	fifth := b.wait(r5)
	t.OK(a.driver.Ask(t.Ctx, "q", fifth.ID, driver.Evict), "Ask to evict")
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
