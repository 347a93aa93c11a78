package drivertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// A call whose context ends at any point is like one whose reply is lost.
var _ = rules.Add(rule{Name: "Cancellation", Says: []string{wrapsTheEnd, leavesOpen}}, func(t *trial) {
	play(t, "cancelled before", cancelled)
	for n := range t.size(4, 2) {
		play(t, fmt.Sprintf("cancelled at look %d", n+1), cancelledAtLook(n+1))
	}
	for n := range t.size(4, 1) {
		play(t, fmt.Sprintf("cancelled during, %d", n+1), cancelledDuring)
	}
})

var _ = rules.Add(rule{Name: "EndedContext", Says: []string{wrapsTheEnd}}, func(t *trial) {
	a, b, held, waiting := t.holderAndWaiter("q")
	cell := t.swap(a.driver, set("c", 0, "v"))
	ctx, cancel := context.WithCancel(t.Ctx)
	cancel()
	calls := everyCall(a.driver, a, held, t.exclusive("r"), set("c", cell.Version, "w"))
	maps.Copy(calls, map[string]func(context.Context) error{
		"Join with NoWait":        func(ctx context.Context) error { return suite.Err(a.Join(ctx, nowait(t.exclusive("r")))) },
		"Await of one that waits": func(ctx context.Context) error { return suite.Err(b.Await(ctx, waiting)) },
		"Resize":                  func(ctx context.Context) error { return a.driver.Resize(ctx, "s", 1) },
		"Shrink":                  func(ctx context.Context) error { return a.Shrink(ctx, held, 1) },
		"Close":                   func(ctx context.Context) error { return a.Close(ctx) },
	})
	for name, call := range calls {
		t.Is(call(ctx), context.Canceled, "%s with a context that has ended", name)
	}
	// Signals that are there may be delivered first.
	t.Is(suite.Err(hears(ctx, b, never)), context.Canceled, "Signals with a context that has ended")
	// A deadline is reported as one.
	late, cancel := context.WithTimeout(t.Ctx, 0)
	defer cancel()
	t.Is(suite.Of(b.Await(late, waiting)), context.DeadlineExceeded, "Await with a deadline that has passed")
})

// ended returns the error that a listing ends with.
func ended[T any](all iter.Seq2[T, error]) (failed error) {
	for _, err := range all {
		failed = err
	}
	return failed
}

// A wait that is given up while the grant is on its way: the ticket is held or
// waits, and never lost.
var _ = rules.Add(rule{Name: "CancelledAwaits", Exclusive: true, Says: []string{
	"Returning for another reason, such as the end of ctx, does not leave the queue.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	for range t.size(100, 20) {
		next := b.wait(t.exclusive("q"))
		ctx, cancel := context.WithCancel(t.Ctx)
		t.Together(
			cancel,
			func() { a.leave(held) },
			func() { t.OK(suite.Unless(suite.Err(b.Await(ctx, next)), context.Canceled), "Await that is given up") },
		)
		b.await(next)
		a, b, held = b, a, next
	}
})

// The contexts of others end again and again, in the middle of their calls, which some
// clients of servers can only end together with the connection.
var _ = rules.Add(rule{Name: "WaitsGoOn", Says: []string{
	"An error that passes, such as a lost connection, ends none of these four.",
}}, func(t *trial) {
	a, b, held, waiting := t.holderAndWaiter("q")
	other := b.hold(t.exclusive("r"))
	cell := t.swap(a.driver, set("c", 0, "v"))
	before := t.snapshot(a.driver, "q")
	waits := map[string]func(context.Context) error{
		"Await": func(ctx context.Context) error { return suite.Err(b.Await(ctx, waiting)) },
		"Signals": func(ctx context.Context) error {
			s, err := hears(ctx, b, func(s driver.Signal) bool { return s.Demand != driver.Doubt }) // which may come at any time
			if err == nil && (s.Demand != driver.Revoke || s.ID != other.ID) {
				err = fmt.Errorf("the signal is %+v", s)
			}
			return err
		},
		"Watch": func(ctx context.Context) error {
			c, err := b.driver.Watch(ctx, "c", cell.Version)
			if err == nil && string(c.Value) != "w" {
				err = fmt.Errorf("the cell is %s", show(c))
			}
			return err
		},
		"Follow": func(ctx context.Context) error {
			q, err := b.driver.Follow(ctx, "q", before.Version)
			if err == nil && q.Version == before.Version {
				err = errors.New("nothing has changed")
			}
			return err
		},
	}
	results := t.beside(t.Ctx, waits)
	for i := range t.size(30, 10) {
		ctx, cancel := context.WithTimeout(t.Ctx, rand.N(2*time.Millisecond))
		if i%3 == 0 {
			cancel()
		}
		t.Together( // whatever becomes of these calls
			func() { _, _ = b.driver.Load(ctx, "c") },
			func() { _, _ = b.driver.Follow(ctx, "q", before.Version) },
			func() { _, _ = b.Renew(ctx, []driver.Ticket{waiting, other}) },
		)
		cancel()
	}
	t.FatalIf(len(results) > 0, "a wait has ended before anything has happened")
	t.swap(a.driver, set("c", cell.Version, "w"))
	a.leave(held)
	a.ask(other, driver.Revoke)
	for left := len(waits); left > 0; {
		select {
		case r := <-results:
			left--
			t.FatalIf(r.err != nil, "%s, beside calls whose context has ended: %v", r.name, r.err)
		case <-time.After(50 * time.Millisecond): // a signal may come with the next Renew only
			_ = t.known(func() error { _, err := b.Renew(t.Ctx, []driver.Ticket{waiting, other}); return err })
		}
	}
})
