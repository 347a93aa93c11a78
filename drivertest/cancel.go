package drivertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// A call whose context ends at any point is like one whose reply is lost.
var cancellation = rule{
	name: "Cancellation",
	says: []string{wrapsTheEnd, leavesOpen},
	check: func(t *trial) {
		play(t, "cancelled before", cancelled)
		for n := range t.size(4, 2) {
			play(t, fmt.Sprintf("cancelled at look %d", n+1), cancelledAtLook(n+1))
		}
		for n := range t.size(4, 1) {
			play(t, fmt.Sprintf("cancelled during, %d", n+1), cancelledDuring)
		}
	},
}

var endedContext = rule{
	name: "EndedContext",
	says: []string{wrapsTheEnd},
	check: func(t *trial) {
		a, b := t.client(), t.client()
		held := a.hold(t.exclusive("q"))
		waiting := b.wait(t.exclusive("q"))
		cell := t.swap(a.driver, set("c", 0, "v"))
		ctx, cancel := context.WithCancel(t.ctx)
		cancel()
		_, open := a.driver.Open(ctx, driver.SessionOptions{TTL: t.TTL})
		_, load := a.driver.Load(ctx, "c")
		_, swap := a.driver.Swap(ctx, set("c", cell.Version, "w"))
		_, watch := a.driver.Watch(ctx, "c", cell.Version)
		_, follow := a.driver.Follow(ctx, "q", t.snapshot(a.driver, "q").Version)
		_, join := a.Join(ctx, t.exclusive("r"))
		_, again := a.Join(ctx, nowait(t.exclusive("r")))
		_, await := b.Await(ctx, waiting)
		_, renew := a.Renew(ctx, []driver.Ticket{held})
		for name, err := range map[string]error{
			"Open": open, "Load": load, "Swap": swap, "Watch": watch, "Follow": follow,
			"Join": join, "Join with NoWait": again, "Await": await, "Renew": renew,
			"Ask":    a.driver.Ask(ctx, "q", held.ID, driver.Revoke),
			"Raise":  a.driver.Raise(ctx, "q", 1),
			"Shrink": a.Shrink(ctx, held, 1),
			"Keep":   a.Keep(ctx, held, t.TTL),
			"Leave":  a.Leave(ctx, held, true),
			"Close":  a.Close(ctx),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s with a context that has ended: %v", name, err)
			}
		}
		// Signals that are there may be delivered first.
		for {
			if _, err := b.Signals(ctx); err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("Signals with a context that has ended: %v", err)
				}
				break
			}
		}
		// A deadline is reported as one.
		late, cancel := context.WithTimeout(t.ctx, 0)
		defer cancel()
		if _, err := b.Await(late, waiting); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Await with a deadline that has passed: %v", err)
		}
	},
}

// A wait that is given up while the grant is on its way: the ticket is held or
// waits, and never lost.
var cancelledAwaits = rule{
	name: "CancelledAwaits",
	says: []string{"Returning for another reason, such as the end of ctx, does not leave the queue."},

	exclusive: true,
	check: func(t *trial) {
		a, b := t.client(), t.client()
		held := a.hold(t.exclusive("q"))
		for range t.size(100, 20) {
			next := b.wait(t.exclusive("q"))
			ctx, cancel := context.WithCancel(t.ctx)
			t.parallel(3, func(i int) error {
				switch i {
				case 0:
					cancel()
				case 1:
					return a.Leave(t.ctx, held, true)
				case 2:
					if _, err := b.Await(ctx, next); err != nil && !errors.Is(err, context.Canceled) {
						return err
					}
				}
				return nil
			})
			b.await(next)
			a, b, held = b, a, next
		}
	},
}
