package drivertest

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

var _ = rules.Add(rule{Name: "AwaitReturnsOnceHeld", Exclusive: true, Across: true, Says: []string{
	"Await returns once the ticket is held.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	a.await(held) // it is already
	for i := range t.size(60, 10) {
		// The grant may come before, during or after the beginning of Await.
		next := b.wait(t.exclusive("q"))
		done := t.Done(func() error { return suite.Err(b.Await(t.Ctx, next)) })
		if i%4 == 0 {
			time.Sleep(time.Millisecond)
		}
		a.leave(held)
		if err := <-done; err != nil {
			t.Fatalf("Await that begins while the ticket is granted: %v%s", err, t.state(a.driver, "q"))
		}
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
	done := t.Done(func() error { return suite.Err(b.Await(t.Ctx, waiting)) })
	b.waits(b.wait(t.exclusive("q")))
	b.leave(waiting) // while somebody awaits it
	t.Is(<-done, driver.ErrGone, "Await of a ticket that leaves meanwhile")
	a.leave(held)
	a.gone(held)
})

var _ = rules.Add(rule{Name: "AwaitDoesNotLeave", Exclusive: true, Says: []string{
	"Returning for another reason, such as the end of ctx, does not leave the queue.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	next := b.wait(t.exclusive("q"))
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
