package drivertest

import (
	"errors"

	"github.com/interlock-go/interlock/driver"
)

var joinIsIdempotent = rule{
	name:      "JoinIsIdempotent",
	says:      []string{"Repeated with the same ID it finds its own ticket, held or waiting, and never makes a second."},
	exclusive: true,
	check: func(t *trial) {
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
		granted := b.hold(again(r2)) // without Await
		if got := b.await(second); got.Token != granted.Token {
			t.Fatalf("Join found the token %d, Await %d", granted.Token, got.Token)
		}
		b.hold(again(r2))
		b.leave(second)
		b.await(third)
		t.stands(a.driver, "q", []driver.Ticket{third}, nil)
	},
}

var noWait = rule{
	name: "NoWait",
	says: []string{
		"Held by others and NoWait: ErrBusy, and no ticket stands",
		"a NoWait ticket that is already in the queue is reported if held and leaves otherwise.",
	},
	exclusive: true,
	check: func(t *trial) {
		a, b := t.client(), t.client()
		r := nowait(t.exclusive("q"))
		first := a.hold(r)
		if got := a.hold(again(r)); got.Token != first.Token {
			t.Fatalf("repeated Join changed the token from %d to %d", first.Token, got.Token)
		}
		busy := nowait(t.exclusive("q"))
		if _, err := b.Join(t.ctx, busy); !errors.Is(err, driver.ErrBusy) {
			t.Fatalf("Join with NoWait of a held queue: %v", err)
		}
		t.stands(b.driver, "q", []driver.Ticket{first}, nil)
		if _, err := b.Join(t.ctx, again(busy)); !errors.Is(err, driver.ErrBusy) {
			t.Fatalf("Join with NoWait of a held queue, repeated: %v", err)
		}
		t.stands(b.driver, "q", []driver.Ticket{first}, nil)

		// A ticket that waits already is not left behind.
		r2, r3 := t.exclusive("q"), t.exclusive("q")
		b.wait(r2)
		third := b.wait(r3)
		if _, err := b.Join(t.ctx, again(nowait(r2))); !errors.Is(err, driver.ErrBusy) {
			t.Fatalf("Join with NoWait of a ticket that waits: %v", err)
		}
		t.stands(b.driver, "q", []driver.Ticket{first}, []driver.Ticket{third})
		a.leave(first)
		b.hold(again(nowait(r3)))
	},
}

// Permits that are free are given to NoWait; permits that are promised to a
// waiter are not.
var noWaitKeepsOrder = rule{
	name: "NoWaitKeepsOrder",
	says: []string{"Held by others and NoWait: ErrBusy, and no ticket stands", firstCome},
	check: func(t *trial) {
		a, b := t.client(), t.client()
		first := a.hold(permits("q", 3, 5))
		small := b.hold(nowait(permits("q", 1, 5)))
		big := b.wait(permits("q", 4, 5))
		if _, err := a.Join(t.ctx, nowait(permits("q", 1, 5))); !errors.Is(err, driver.ErrBusy) {
			t.Fatalf("Join with NoWait behind a ticket that waits: %v", err)
		}
		t.stands(a.driver, "q", []driver.Ticket{first, small}, []driver.Ticket{big})
	},
}
