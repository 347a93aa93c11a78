package drivertest

import (
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const inheritedSays = "Inherited says that the last exclusive holder of the queue died or did not leave cleanly. With Request.ReportDeath it is certain for a ticket that waited when that happened; else it may be wrong to the safe side. Without ReportDeath it may be missing."

// A death is a way in which an exclusive holder ends without leaving cleanly.
type death struct {
	name string
	die  func(t *trial, a *client, held driver.Ticket) // nil: it is not renewed
	hold bool                                          // it was joined with a Hold, which runs out
}

func (t *trial) deaths() []death {
	all := []death{
		{name: "left uncleanly", die: func(t *trial, a *client, held driver.Ticket) {
			a.abandon(held)
		}},
		{name: "session closed", die: func(t *trial, a *client, held driver.Ticket) {
			a.close()
		}},
		{name: "taken by force", die: func(t *trial, a *client, held driver.Ticket) {
			t.OK(t.driver().Ask(t.Ctx, held.Queue, held.ID, driver.Force), "Ask")
		}},
		{name: "not renewed"},
		{name: "not done when its Hold ran out", hold: true},
	}
	if !t.fixes() {
		return all[:len(all)-1]
	}
	return all
}

// holder has a client of its own hold what the request asks for, until it dies.
func (d death) holder(t *trial, r driver.Request) (held driver.Ticket, die func()) {
	a := t.client()
	if d.hold {
		r.Hold = t.TTL / 4
	} else if d.die == nil {
		a = t.mortal()
	}
	held = a.hold(r)
	return held, func() {
		if d.die != nil {
			d.die(t, a, held)
		}
	}
}

var _ = rules.Add(rule{Name: "Inherited", Exclusive: true, Across: true, Says: []string{inheritedSays}}, func(t *trial) {
	t.FatalIf(t.client().hold(t.exclusive("new")).Inherited, "the first holder of all inherits")
	b := t.client()
	heirs := map[string]driver.Ticket{} // or none, if none waits
	for _, d := range t.deaths() {
		for _, queue := range []string{d.name, d.name + ", nobody waiting"} {
			held, die := d.holder(t, t.exclusive(queue))
			t.FatalIf(held.Inherited, "the first holder of the queue %q: %+v", queue, held)
			heirs[queue] = driver.Ticket{}
			if queue == d.name {
				heirs[queue] = b.join(t.exclusive(queue))
				b.beat(heirs[queue])
			}
			die()
		}
	}
	for queue, heir := range heirs {
		if heir.ID == "" {
			t.Eventually("the holder is gone", func() bool { return len(t.snapshot(b.driver, queue).Members) == 0 })
			heir = b.join(t.exclusive(queue))
		}
		t.FatalIf(!b.await(heir).Inherited, "the next holder does not inherit, although the last was %s", queue)
		after := b.wait(t.exclusive(queue))
		b.leave(heir)
		t.FatalIf(b.await(after).Inherited, "a ticket that waited inherits, although the last holder left cleanly")
	}
})

// Readers leave nothing half done, and what a writer left undone is not undone
// by a reader in between.
var _ = rules.Add(rule{Name: "InheritedAmongReaders", Says: []string{
	inheritedSays,
	"Not clean means that the work under an exclusive ticket may be half done: the next one is told so (Inherited).",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	r := a.hold(reader("q"))
	w := b.wait(writer("q"))
	a.abandon(r)
	t.FatalIf(b.await(w).Inherited, "a writer inherits from a reader")
	r1 := a.wait(reader("q"))
	r2 := a.wait(reader("q"))
	w2 := a.wait(writer("q"))
	b.abandon(w)
	for _, r := range []driver.Ticket{r1, r2} {
		t.FatalIf(!a.await(r).Inherited, "a reader is not told that the last writer did not leave cleanly")
		a.leave(r)
	}
	t.FatalIf(!a.await(w2).Inherited, "a writer behind readers is not told that the last writer did not leave cleanly")

	// Each of them is alone.
	a.abandon(a.hold(writer("alone")))
	for range 2 {
		b.leave(b.hold(reader("alone")))
	}
	t.FatalIf(!b.hold(writer("alone")).Inherited,
		"a writer after readers is not told that the last writer did not leave cleanly")
})

const exclusiveSays = "An exclusive holder is one beside which no other holds, and whose units are the whole capacity, or more if that was lowered, when it leaves."

// Of whoever holds all permits, it is told how it ended also if there are fewer by then. Of others it is not,
// though they have as many as there are by then.
var _ = rules.Add(rule{Name: "InheritedAfterResize", Says: []string{inheritedSays, exclusiveSays}}, func(t *trial) {
	b := t.client()
	one := func(queue string) driver.Request { return permits(queue, 1, 3) }
	inherits := func(want bool, what string, all ...driver.Ticket) {
		for _, tk := range all {
			got := b.await(tk)
			t.FatalIf(got.Inherited != want, "%s: inherited %v", what, got.Inherited)
		}
	}
	for _, d := range t.deaths() {
		_, die := d.holder(t, permits(d.name, 3, 3))
		first, second, last := b.join(one(d.name)), b.join(one(d.name)), b.join(one(d.name))
		t.resized(b.driver, d.name, 2)
		b.beat(first, second, last)
		die()
		inherits(true, "two that are granted at once, the last holder of all permits was "+d.name, first, second)
		b.leave(first)
		inherits(true, "one that waited since then, the last holder of all permits was "+d.name, last)
		b.leave(second)
		b.leave(last)
	}

	a := t.client()
	dies := func(queue string) {
		a.abandon(a.hold(permits(queue, 3, 3)))
	}
	dies("cleared")
	all := b.hold(permits("cleared", 3, 3))
	next := b.wait(one("cleared"))
	t.resized(a.driver, "cleared", 2)
	b.leave(all)
	inherits(false, "the last holder of all permits left cleanly", next)

	for how, clear := range map[string]func(two, other driver.Ticket){
		"left": func(two, other driver.Ticket) {
			b.leave(two)
		},
		"shrunk": func(two, other driver.Ticket) {
			b.shrink(two, 1)
			b.leave(other)
		},
	} {
		held := a.hold(permits(how, 3, 3))
		two, other, last := b.wait(permits(how, 2, 3)), b.wait(one(how)), b.wait(one(how))
		a.abandon(held)
		inherits(true, "the last holder of all permits left uncleanly", two, other)
		t.resized(a.driver, how, 2)
		clear(two, other)
		inherits(true, "no holder of all permits has left since then, but one of two has "+how, last)
	}
})

// A lost reply must not lose what it said.
var _ = rules.Add(rule{Name: "InheritedIsRepeated", Exclusive: true, Says: []string{
	inheritedSays,
	joinAgainSays,
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	r := t.exclusive("q")
	heir := b.wait(r)
	granted := b.awaiting(heir)
	a.abandon(held)
	t.FatalIf(!granted().Inherited, "the news of the grant do not say Inherited")
	for range 2 {
		t.FatalIf(!b.await(heir).Inherited, "Await does not report Inherited")
		t.FatalIf(!b.hold(again(r)).Inherited, "a repeated Join does not report Inherited")
	}
	t.OK(suite.Unless(b.Leave(t.Ctx, heir, false), driver.ErrGone), "Leave")
})
