package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

var awaitReturnsOnceHeld = rule{
	name:      "AwaitReturnsOnceHeld",
	says:      []string{"Await returns once the ticket is held."},
	exclusive: true,
	across:    true,
	check: func(t *trial) {
		a, b := t.client(), t.client()
		held := a.hold(t.exclusive("q"))
		a.await(held) // it is already
		for i := range t.size(60, 10) {
			// The grant may come before, during or after the beginning of Await.
			next := b.wait(t.exclusive("q"))
			done := make(chan error, 1)
			t.calls.Go(func() {
				_, err := b.Await(t.ctx, next)
				done <- err
			})
			if i%4 == 0 {
				time.Sleep(time.Millisecond)
			}
			a.leave(held)
			if err := <-done; err != nil {
				t.Fatalf("Await that begins while the ticket is granted: %v%s", err, t.state(a.driver, "q"))
			}
			a, b, held = b, a, next
		}
	},
}

var awaitOfAGoneTicket = rule{
	name: "AwaitOfAGoneTicket",
	says: []string{"A ticket that does not stand (any more): ErrGone."},

	exclusive: true,
	check: func(t *trial) {
		a, b := t.client(), t.client()
		a.gone(driver.Ticket{ID: newID(), Queue: "q"})
		held := a.hold(t.exclusive("q"))
		a.gone(driver.Ticket{ID: newID(), Queue: "q"})
		waiting := b.wait(t.exclusive("q"))
		done := make(chan error, 1)
		t.calls.Go(func() {
			_, err := b.Await(t.ctx, waiting)
			done <- err
		})
		b.waits(b.wait(t.exclusive("q")))
		b.leave(waiting) // while somebody awaits it
		if err := <-done; !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Await of a ticket that leaves meanwhile: %v", err)
		}
		a.leave(held)
		a.gone(held)
	},
}

var awaitDoesNotLeave = rule{
	name: "AwaitDoesNotLeave",
	says: []string{"Returning for another reason, such as the end of ctx, does not leave the queue."},

	exclusive: true,
	check: func(t *trial) {
		a, b := t.client(), t.client()
		held := a.hold(t.exclusive("q"))
		next := b.wait(t.exclusive("q"))
		last := a.wait(t.exclusive("q"))
		for range 5 {
			ctx, cancel := context.WithTimeout(t.ctx, time.Millisecond)
			if _, err := b.Await(ctx, next); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Await after the end of its context: %v", err)
			}
			cancel()
		}
		t.stands(a.driver, "q", []driver.Ticket{held}, []driver.Ticket{next, last})
		a.leave(held)
		b.await(next)
	},
}
