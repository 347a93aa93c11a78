package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

const fixedEnd = "The exception is a held ticket with a fixed end ([Request].Hold, [Session.Keep]): it ends at that time, whatever its session does."

// fixed asks for the queue for a fixed time.
func (t *trial) fixed(queue string, d time.Duration) driver.Request {
	r := t.exclusive(queue)
	r.Hold = d
	return r
}

// fixes reports whether tickets can have a fixed end. Rules about other things do
// without one where they cannot.
func (t *trial) fixes() bool {
	_, cannot := t.Unsupported["HoldEndsByItself"]
	return !cannot
}

var _ = rules.Add(rule{Name: "HoldEndsByItself", Exclusive: true, Says: []string{fixedEnd}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.fixed("q", t.TTL/2))
	a.beat(held)
	next := b.behind(t.exclusive("q"))
	next.notBefore(held.Proof.Add(t.TTL/2), "by its Hold")
	a.says(driver.Gone, held)
})

var _ = rules.Add(rule{Name: "HoldOutlivesItsSession", Says: []string{fixedEnd}}, func(t *trial) {
	b := t.client()
	d := 5 * t.TTL / 2
	unrenewed := t.mortal()
	first := unrenewed.hold(t.fixed("unrenewed", d))

	closed := t.client()
	second := closed.hold(t.fixed("closed", d))
	closed.close()

	drv, shut := t.guest()
	dead := t.session(drv, t.TTL)
	third := dead.hold(t.fixed("dead", d))
	t.OK(shut(), "Close of the driver")

	for _, tk := range []driver.Ticket{first, second, third} {
		b.behind(t.exclusive(tk.Queue)).begins(tk.Proof.Add(d), "by its Hold, in the queue "+tk.Queue)
	}
})

var _ = rules.Add(rule{Name: "HoldBeginsWithTheGrant", Says: []string{
	"0: as long as it is renewed; else it ends this long after the grant",
}}, func(t *trial) {
	front, a, b := t.client(), t.client(), t.client()
	first := front.hold(t.exclusive("q")) // which no Renew makes a stray
	waiting := a.wait(t.fixed("q", t.TTL))
	next := b.behind(t.exclusive("q"))
	time.Sleep(t.TTL / 2)
	front.leave(first)
	ctx, cancel := context.WithTimeout(t.Ctx, t.Patience/3)
	defer cancel()
	got, err := a.Await(ctx, waiting)
	a.okIn("q", err, "Await of a ticket with a Hold, after the one in front has left")
	for _, m := range t.snapshot(a.driver, "q").Members {
		t.FatalIf(m.ID == got.ID && !m.Fixed,
			"a ticket with a Hold that has waited is held without a fixed end: %+v", m)
	}
	next.notBefore(got.Proof.Add(t.TTL), "by its Hold")
})

var _ = rules.Add(rule{Name: "Keep", Says: []string{
	"Keep makes a held ticket end d from now, sooner or later than it would have, and whatever its session does.",
}}, func(t *trial) {
	b := t.client()
	// keep gives the ticket an end, which counts from now.
	keep := func(a *client, held driver.Ticket, d time.Duration) {
		next := b.behind(t.exclusive(held.Queue))
		before := a.driver.Now()
		t.OK(a.Keep(t.Ctx, held, d), "Keep of %q", held.Queue)
		next.begins(before.Add(d), "by Keep, in the queue "+held.Queue)
	}
	a := t.client()
	later := a.hold(t.fixed("later", limit))
	t.OK(a.Keep(t.Ctx, later, 3*limit), "Keep for longer")
	sooner := a.hold(t.fixed("sooner", 10*limit))
	plain := a.hold(t.exclusive("plain"))
	a.beat(sooner, plain)
	keep(a, sooner, t.TTL/2)
	keep(a, plain, t.TTL)

	again := a.hold(t.fixed("again", t.TTL))
	t.okBefore(a.driver, again.Proof.Add(t.TTL), a.Keep(t.Ctx, again, 10*limit), "Keep of a ticket before its end")
	keep(a, again, 2*t.TTL)

	closed := t.client()
	keep(closed, closed.hold(t.exclusive("closed")), 2*t.TTL)
	closed.close()
	m := t.snapshot(b.driver, "later").Members
	t.FatalIf(len(m) != 1 || !m[0].Fixed || m[0].Left < limit, "a ticket that was kept for longer is %+v", m)
})

var _ = rules.Add(rule{Name: "KeepOfWhatCannotBeKept", Says: []string{
	"A ticket that waits: ErrInvalid.",
	"An evicted ticket that would stand for longer than without this, or a ticket that does not stand: ErrGone.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held, waiting := a.hold(t.exclusive("q")), a.wait(t.exclusive("q"))
	err := a.Keep(t.Ctx, waiting, limit)
	t.FatalIf(!errors.Is(err, driver.ErrInvalid), "Keep of a ticket that waits: %v; it must be ErrInvalid", err)
	t.stands(a.driver, "q", []driver.Ticket{held}, []driver.Ticket{waiting})
	for _, m := range t.snapshot(a.driver, "q").Members {
		t.FatalIf(m.Fixed, "a Keep that was refused gave the ticket an end: %+v", m)
	}

	// Nothing makes an evicted ticket stand for longer.
	mortal := t.mortal()
	evicted := mortal.lease(mortal.hold(t.exclusive("evicted")))
	short := a.hold(t.fixed("evicted, with an end", 10*limit))
	for _, tk := range []driver.Ticket{evicted.ticket, short} {
		t.okBefore(b.driver, evicted.end(), b.driver.Ask(t.Ctx, tk.Queue, tk.ID, driver.Evict), "Ask")
	}
	next := b.behind(t.exclusive("evicted"))
	for _, k := range []struct {
		*client
		tk driver.Ticket
	}{{mortal, evicted.ticket}, {a, short}, {b, short}} {
		err := k.Keep(t.Ctx, k.tk, 20*limit)
		if errors.Is(err, driver.ErrSession) {
			t.inTime(b.driver, evicted.end())
		}
		t.FatalIf(!errors.Is(err, driver.ErrGone),
			"Keep of an evicted ticket, %q, for longer than it stands: %v; it must be ErrGone", k.tk.Queue, err)
	}
	next.notBefore(evicted.end(), "which was evicted")
	m := t.snapshot(b.driver, short.Queue).Members
	t.FatalIf(len(m) == 1 && m[0].Left > 15*limit, "an evicted ticket with a fixed end stands for %v", m[0].Left)

	// It may end sooner.
	sooner := a.hold(t.exclusive("sooner"))
	b.ask(sooner, driver.Evict)
	before := a.driver.Now()
	t.OK(a.Keep(t.Ctx, sooner, t.TTL/4), "Keep of an evicted ticket for a shorter time")
	b.behind(t.exclusive("sooner")).notBefore(before.Add(t.TTL/4), "by Keep")
})

var _ = rules.Add(rule{Name: "KeepByAnotherSession", Across: true, Says: []string{
	"It also serves tickets of other sessions, by their ID, if they have a fixed end already.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	fixed, plain := a.hold(t.fixed("fixed", 10*limit)), a.hold(t.exclusive("plain"))
	a.close()
	t.Is(b.Keep(t.Ctx, driver.Ticket{ID: plain.ID, Queue: "plain"}, limit), driver.ErrGone, "Keep of a ticket that does not stand")
	c := t.client()
	plain = c.hold(t.exclusive("plain"))
	t.FatalIf(b.Keep(t.Ctx, driver.Ticket{ID: plain.ID, Queue: "plain"}, limit) == nil,
		"Keep of another session's ticket without a fixed end succeeds")
	m := t.snapshot(b.driver, "plain").Members[0]
	t.FatalIf(m.Fixed, "another session gave the ticket a fixed end: %+v", m)
	next := b.behind(t.exclusive("fixed"))
	end := b.driver.Now().Add(t.TTL / 2)
	t.OK(b.Keep(t.Ctx, driver.Ticket{ID: fixed.ID, Queue: "fixed"}, t.TTL/2), "Keep of another session's ticket")
	next.notBefore(end, "by Keep of another session")
})

var _ = rules.Add(rule{Name: "KeptTicketsEndCleanly", Says: []string{
	"A ticket that was joined without Hold ends cleanly then: its holder is done and only keeps others out.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	next := b.behind(t.exclusive("q"))
	t.OK(a.Keep(t.Ctx, held, t.TTL/4), "Keep")
	t.FatalIf(next.notBefore(0, "that was kept").Inherited,
		"the next holder inherits from one that was kept after its work was done")
})
