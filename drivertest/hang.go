package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// Alone: a world may hang the clients of others, too.
var _ = rules.Add(rule{Name: "HangingBackend", Hook: "Hang", Alone: true, Says: []string{
	wrapsTheEnd,
	leavesOpen,
}}, func(t *trial) {
	a, b, idle := t.client(), t.client(), t.driver()
	held := a.hold(t.exclusive("q"))
	waiting := b.wait(t.exclusive("q"))
	request := t.exclusive("r")
	cell := set("c", 0, "v")

	resume := t.world.Hang()
	calls := everyCall(a.driver, a, held, request, cell)
	calls["Await"] = func(ctx context.Context) error { _, err := b.Await(ctx, waiting); return err }
	if !t.fixes() {
		delete(calls, "Keep")
	}
	calls["Load without a session"] = func(ctx context.Context) error { _, err := idle.Load(ctx, "d"); return err }
	// These have longer, and must not keep the calls of the second round at the latest.
	for _, name := range []string{"Renew", "Load", "Load without a session"} {
		t.Calls.Go(func() { _ = calls[name](t.Ctx) })
	}
	type result struct {
		name string
		err  error
	}
	results := make(chan result, len(calls))
	for range 2 {
		for name, call := range calls {
			t.Calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Ctx, 200*time.Millisecond)
				defer cancel()
				results <- result{name, call(ctx)}
			})
		}
		bound := time.After(limit / 2)
		for range calls {
			select {
			case r := <-results:
				if !errors.Is(r.err, context.DeadlineExceeded) {
					resume()
					t.Fatalf("%s of a backend that hangs, when its context ended: %v", r.name, r.err)
				}
			case <-bound:
				resume()
				t.Fatalf("a call to a backend that hangs does not end with its context")
			}
		}
	}
	resume()

	// What became of the calls is open; repeated, they have happened once.
	leave := func() error { return a.Leave(t.Ctx, held, true) }
	t.OK(suite.Unless(t.known(leave), driver.ErrGone), "Leave, repeated")
	b.await(waiting)
	for name, call := range map[string]func() error{
		"Join": func() error { _, err := a.Join(t.Ctx, again(request)); return err },
		"Swap": func() error { _, err := a.driver.Swap(t.Ctx, cell); return err },
	} {
		t.OK(t.known(call), "%s, repeated", name)
	}
	a.hold(again(request))
	t.swap(a.driver, cell)
})

var _ = rules.Add(rule{Name: "UnreachableBackend", Hook: "Unreachable", Says: []string{
	"It fails at once, with the reason, if the backend cannot be reached.",
}}, func(t *trial) {
	done := t.Done(func() error { return t.world.Unreachable(t.Ctx) })
	select {
	case err := <-done:
		t.FatalIf(err == nil, "Open of a backend that is not there succeeds")
		t.Logf("the reason given: %v", err)
	case <-time.After(limit / 2):
		t.Fatalf("Open of a backend that is not there still waits")
	}
})

// Messages that tell of grants and signals can be lost; heartbeats repair it.
// Alone: a world may lose the messages of others, too.
var _ = rules.Add(rule{Name: "LostMessages", Hook: "LoseMessages", Alone: true, Says: []string{
	"Renew also repairs whatever a lost message left undone: a grant that Await was not told of, a signal that was not delivered.",
	neverStray,
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	held := a.hold(t.exclusive("q"))
	next := b.wait(t.exclusive("q"))
	other := b.hold(t.exclusive("r"))
	granted, evicted := make(chan error, 1), make(chan error, 1)
	t.Calls.Go(func() {
		_, err := b.Await(t.Ctx, next)
		granted <- err
	})
	small := c.hold(permits("s", 1, 2))
	big := b.wait(permits("s", 2, 2))
	t.Calls.Go(func() {
		_, err := b.Await(t.Ctx, big)
		evicted <- err
	})
	var first, fixed driver.Ticket
	if t.fixes() {
		first = a.hold(t.exclusive("f"))
		fixed = b.wait(t.fixed("f", 10*limit))
	}
	time.Sleep(50 * time.Millisecond) // both are under way; if not, the rule is easier to keep
	resume := t.world.LoseMessages()
	a.leave(held)
	last := c.wait(t.exclusive("r"))
	t.OK(c.driver.Ask(t.Ctx, "r", other.ID, driver.Revoke), "Ask")
	t.OK(c.driver.Ask(t.Ctx, "s", big.ID, driver.Evict), "Ask")
	if t.fixes() {
		a.leave(first)
		t.OK(c.driver.Ask(t.Ctx, "f", fixed.ID, driver.Evict), "Ask")
	}
	resume()
	if r, told := b.renew(next, other, big)[fixed.ID]; told {
		t.Fatalf("Renew reports a ticket with a fixed end that was not named, and of whose grant and eviction its session has not heard: %+v", r)
	}
	if err := <-granted; err != nil {
		t.Fatalf("Await of a grant whose news was lost, after Renew: %v%s", err, t.state(a.driver, "q"))
	}
	t.Is(<-evicted, driver.ErrGone, "Await of an evicted ticket after Renew")
	b.signal(driver.Revoke, other, next, big, fixed)
	b.signal(driver.Wanted, other, next, big, fixed)
	b.leave(other)
	c.await(last)
	c.leave(small)
})
