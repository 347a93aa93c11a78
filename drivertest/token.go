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
	k.t.Helper()
	if !tk.Held || tk.Token <= k.last || tk.Token >= driver.MaxToken {
		k.t.Fatalf("the token %d follows %d, %s", tk.Token, k.last, how)
	}
	k.last = tk.Token
}

var tokensOfExclusiveGrants = rule{
	name:      "TokensOfExclusiveGrants",
	says:      []string{"Token numbers the grant, 0 < Token < MaxToken; 0 while waiting.", tokensGrow},
	exclusive: true,
	check: func(t *trial) {
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
		if err := b.driver.Ask(t.ctx, "q", held.ID, driver.Force); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		got := b.await(waiting)
		k.next(got, "by force")
		waiting = a.wait(t.exclusive("q"))
		if err := b.Close(t.ctx); err != nil {
			t.Fatalf("Close: %v", err)
		}
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
	},
}

// The counter of a queue outlives all its clients.
var tokensOverRestart = rule{
	name:   "TokensOverRestart",
	says:   []string{tokensGrow},
	across: true,
	check: func(t *trial) {
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
				if err := a.Close(t.ctx); err != nil {
					t.Fatalf("Close: %v", err)
				}
			}
			if err := shut(); err != nil {
				t.Fatalf("Close of the driver: %v", err)
			}
		}
	},
}

var tokensOfWriters = rule{
	name: "TokensOfWriters",
	says: []string{tokensGrow},
	check: func(t *trial) {
		k := &tokens{t: t}
		a, b := t.client(), t.client()
		for range 5 {
			w := a.hold(writer("q"))
			k.next(w, "of writers")
			r1, r2 := b.wait(reader("q")), b.wait(reader("q"))
			a.leave(w)
			for _, r := range []driver.Ticket{b.await(r1), b.await(r2)} {
				if r.Token == 0 || r.Token >= driver.MaxToken {
					t.Fatalf("a reader has the token %d", r.Token)
				}
				b.leave(r)
			}
		}
	},
}

// A token belongs to a grant and does not change while it is held.
var tokenStays = rule{
	name: "TokenStays",
	says: []string{"Token numbers the grant, 0 < Token < MaxToken; 0 while waiting."},
	check: func(t *trial) {
		a, b := t.client(), t.client()
		r := writer("q")
		held := a.hold(r)
		same := func(how string, got driver.Ticket) {
			t.Helper()
			if got.Token != held.Token {
				t.Fatalf("the token became %d after %d, %s", got.Token, held.Token, how)
			}
		}
		same("awaited", a.await(held))
		if err := a.Keep(t.ctx, held, 10*limit); err != nil {
			t.Fatalf("Keep: %v", err)
		}
		same("kept", a.hold(again(r)))
		if err := b.driver.Raise(t.ctx, "q", held.Token+1000); err != nil {
			t.Fatalf("Raise: %v", err)
		}
		same("raised for later ones", a.hold(again(r)))
		if err := a.Shrink(t.ctx, held, 1); err != nil {
			t.Fatalf("Shrink: %v", err)
		}
		same("shrunk", a.hold(again(r)))
	},
}

var tokenIsShown = rule{
	name: "TokenIsShown",
	says: []string{"Token numbers the grant, 0 < Token < MaxToken; 0 while waiting."},
	check: func(t *trial) {
		a, b := t.client(), t.client()
		held := a.hold(writer("q"))
		shows := func(how string) {
			t.Helper()
			all := t.snapshot(b.driver, "q").Members
			if len(all) != 1 || all[0].Token != held.Token {
				t.Fatalf("inspection shows %+v, and the token is %d, %s", all, held.Token, how)
			}
		}
		shows("granted")
		if err := b.driver.Raise(t.ctx, "q", held.Token+1000); err != nil {
			t.Fatalf("Raise: %v", err)
		}
		shows("raised for later ones")
		if err := a.Shrink(t.ctx, held, 1); err != nil {
			t.Fatalf("Shrink: %v", err)
		}
		shows("shrunk")
	},
}

var raise = rule{
	name: "Raise",
	says: []string{
		"Raise makes every later token of the queue larger than floor.",
		"An empty name stands for all queues, also those to come: tickets that join later get larger tokens.",
		"Where tokens follow a clock that is behind such a floor: ErrInvalid.",
	},
	exclusive: true,
	check: func(t *trial) {
		k := &tokens{t: t}
		a, b := t.client(), t.client()
		raise := func(floor uint64) {
			t.Helper()
			if err := b.driver.Raise(t.ctx, "q", floor); err != nil {
				t.Fatalf("Raise: %v", err)
			}
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
		if tk := a.hold(t.exclusive("other")); tk.Token == 0 || tk.Token >= driver.MaxToken {
			t.Fatalf("another queue has the token %d", tk.Token)
		}

		standing := t.exclusive("standing")
		held = a.hold(standing)
		idle := a.hold(t.exclusive("idle"))
		a.leave(idle)
		floor := idle.Token + 1<<24
		err := b.driver.Raise(t.ctx, "", floor)
		if errors.Is(err, driver.ErrInvalid) {
			floor = idle.Token
			err = b.driver.Raise(t.ctx, "", floor)
		}
		if err != nil {
			t.Fatalf("Raise of all queues over %d: %v", floor, err)
		}
		if got := a.hold(again(standing)); got.Token != held.Token {
			t.Fatalf("the token of one that is held became %d after %d, by a Raise of all queues", got.Token, held.Token)
		}
		a.leave(held)
		for _, name := range []string{"standing", "idle", "never"} {
			if got := a.hold(t.exclusive(name)); got.Token <= floor {
				t.Fatalf("after a Raise of all queues over %d, %q has the token %d", floor, name, got.Token)
			}
		}
	},
}
