package drivertest

import (
	"errors"

	"github.com/interlock-go/interlock/driver"
)

const tokensGrow = "A later exclusive grant of the same queue (one whose units are the whole capacity) has a larger token, over crashes and restarts, and over the queue having been empty in between."

// tokens checks that every grant has a larger token than the last.
type tokens struct {
	t    *trial
	last uint64
}

func (k *tokens) next(tk driver.Ticket, how string) {
	k.t.FatalIf(!tk.Held || tk.Token <= k.last || tk.Token >= driver.MaxToken,
		"the token %d follows %d, %s", tk.Token, k.last, how)
	k.last = tk.Token
}

var _ = rules.Add(rule{Name: "TokensOfExclusiveGrants", Exclusive: true, Says: []string{
	"Token numbers the grant, 0 < Token < MaxToken; 0 while waiting.",
	tokensGrow,
}}, func(t *trial) {
	k := &tokens{t: t}
	a, b := t.client(), t.client()
	for range 3 {
		held := a.hold(t.exclusive("q"))
		k.next(held, "over an empty queue")
		waiting := b.wait(t.exclusive("q"))
		a.leave(held)
		got := b.await(waiting)
		k.next(got, "handed over")
		b.leave(got)
	}
	held := a.hold(nowait(t.exclusive("q")))
	k.next(held, "with NoWait")
	waiting := b.wait(t.exclusive("q"))
	b.ask(held, driver.Force)
	got := b.await(waiting)
	k.next(got, "by force")
	waiting = a.wait(t.exclusive("q"))
	b.close()
	got = a.await(waiting)
	k.next(got, "after the session was closed")
	a.leave(got)

	if !t.fixes() {
		return
	}
	fixed := a.hold(t.fixed("q", t.TTL/10))
	k.next(fixed, "with a fixed end")
	next := t.client()
	k.next(next.behind(t.exclusive("q")).notBefore(0, "with a Hold"), "after the end of a Hold")
})

// The counter of a queue outlives all its clients.
var _ = rules.Add(rule{Name: "TokensOverRestart", Across: true, Says: []string{tokensGrow}}, func(t *trial) {
	k := &tokens{t: t}
	for i := range 4 {
		d, shut := t.guest()
		if dies := i%2 == 1; dies {
			k.next(t.session(d, t.TTL).hold(t.exclusive("q")), "after all clients were closed and opened again")
		} else {
			a := t.session(d, 10*limit)
			tk := a.join(t.exclusive("q"))
			stop := a.beat(tk)
			k.next(a.await(tk), "after all clients were closed or had died")
			stop()
			a.leave(tk)
			a.close()
		}
		t.OK(shut(), "Close of the driver")
	}
})

var _ = rules.Add(rule{Name: "TokensOfWriters", Says: []string{tokensGrow}}, func(t *trial) {
	k := &tokens{t: t}
	a, b := t.client(), t.client()
	for range 5 {
		w := a.hold(writer("q"))
		k.next(w, "of writers")
		r1, r2 := b.wait(reader("q")), b.wait(reader("q"))
		a.leave(w)
		for _, r := range []driver.Ticket{b.await(r1), b.await(r2)} {
			t.FatalIf(r.Token == 0 || r.Token >= driver.MaxToken, "a reader has the token %d", r.Token)
			b.leave(r)
		}
	}
})

// A token belongs to a grant and does not change while it is held.
var _ = rules.Add(rule{Name: "TokenStays", Says: []string{
	"Token numbers the grant, 0 < Token < MaxToken; 0 while waiting.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	r := writer("q")
	held := a.hold(r)
	same := func(how string, got driver.Ticket) {
		t.FatalIf(got.Token != held.Token, "the token became %d after %d, %s", got.Token, held.Token, how)
	}
	same("awaited", a.await(held))
	t.OK(a.Keep(t.Ctx, held, 10*limit), "Keep")
	same("kept", a.hold(again(r)))
	t.OK(b.driver.Raise(t.Ctx, "q", held.Token+1000), "Raise")
	same("raised for later ones", a.hold(again(r)))
	a.shrink(held, 1)
	same("shrunk", a.hold(again(r)))
})

var _ = rules.Add(rule{Name: "TokenIsShown", Says: []string{
	"Token numbers the grant, 0 < Token < MaxToken; 0 while waiting.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(writer("q"))
	shows := func(how string) {
		all := t.snapshot(b.driver, "q").Members
		t.FatalIf(len(all) != 1 || all[0].Token != held.Token,
			"inspection shows %+v, and the token is %d, %s", all, held.Token, how)
	}
	shows("granted")
	t.OK(b.driver.Raise(t.Ctx, "q", held.Token+1000), "Raise")
	shows("raised for later ones")
	a.shrink(held, 1)
	shows("shrunk")
})

var _ = rules.Add(rule{Name: "Raise", Exclusive: true, Says: []string{
	"Raise makes every later token of the queue larger than floor.",
	"An empty name stands for all queues, also those to come: tickets that join later get larger tokens.",
	"Where tokens follow a clock that is behind such a floor: ErrInvalid.",
}}, func(t *trial) {
	k := &tokens{t: t}
	a, b := t.client(), t.client()
	raise := func(floor uint64) {
		t.OK(b.driver.Raise(t.Ctx, "q", floor), "Raise")
		k.last = max(k.last, floor)
	}
	raise(1 << 40) // a queue that never was
	held := a.hold(t.exclusive("q"))
	k.next(held, "over Raise")
	granted := b.awaiting(b.wait(t.exclusive("q")))
	raise(k.last + 1_000_000) // while one waits
	raise(5)                  // never lower
	a.leave(held)
	got := granted()
	k.next(got, "over Raise while it waited")
	b.leave(got)
	later := a.hold(t.exclusive("q"))
	k.next(later, "over Raise, when the queue had been empty")
	a.leave(later)
	raise(k.last + 1_000_000) // an empty queue
	k.next(a.hold(t.exclusive("q")), "over Raise while the queue was empty")
	tk := a.hold(t.exclusive("other"))
	t.FatalIf(tk.Token == 0 || tk.Token >= driver.MaxToken, "another queue has the token %d", tk.Token)

	standing := t.exclusive("standing")
	held = a.hold(standing)
	idle := a.hold(t.exclusive("idle"))
	a.leave(idle)
	floor := idle.Token + 1<<24
	err := b.driver.Raise(t.Ctx, "", floor)
	if errors.Is(err, driver.ErrInvalid) {
		floor = idle.Token
		err = b.driver.Raise(t.Ctx, "", floor)
	}
	t.FatalIf(err != nil, "Raise of all queues over %d: %v", floor, err)
	if got := a.hold(again(standing)); got.Token != held.Token {
		t.Fatalf("the token of one that is held became %d after %d, by a Raise of all queues", got.Token, held.Token)
	}
	a.leave(held)
	for _, name := range []string{"standing", "idle", "never"} {
		if got := a.hold(t.exclusive(name)); got.Token <= floor {
			t.Fatalf("after a Raise of all queues over %d, %q has the token %d", floor, name, got.Token)
		}
	}
})
