package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

var hangingBackend = rule{
	name:  "HangingBackend",
	hook:  "Hang",
	says:  []string{wrapsTheEnd, leavesOpen},
	alone: true, // a world may hang the clients of others, too
	check: func(t *trial) {
		a, b := t.client(), t.client()
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
		type result struct {
			name string
			err  error
		}
		results := make(chan result, len(calls))
		for name, call := range calls {
			t.calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.ctx, 200*time.Millisecond)
				defer cancel()
				results <- result{name, call(ctx)}
			})
		}
		for range calls {
			select {
			case r := <-results:
				if !errors.Is(r.err, context.DeadlineExceeded) {
					resume()
					t.Fatalf("%s of a backend that hangs, when its context ended: %v", r.name, r.err)
				}
			case <-t.ctx.Done():
				resume()
				t.Fatalf("a call to a backend that hangs does not end with its context")
			}
		}
		resume()

		// What became of the calls is open; repeated, they have happened once.
		leave := func() error { return a.Leave(t.ctx, held, true) }
		if err := t.known(leave); err != nil && !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Leave, repeated: %v", err)
		}
		b.await(waiting)
		for name, call := range map[string]func() error{
			"Join": func() error { _, err := a.Join(t.ctx, again(request)); return err },
			"Swap": func() error { _, err := a.driver.Swap(t.ctx, cell); return err },
		} {
			if err := t.known(call); err != nil {
				t.Fatalf("%s, repeated: %v", name, err)
			}
		}
		a.hold(again(request))
		t.swap(a.driver, cell)
	},
}

var unreachableBackend = rule{
	name: "UnreachableBackend",
	hook: "Unreachable",
	says: []string{"It fails at once, with the reason, if the backend cannot be reached."},
	check: func(t *trial) {
		done := make(chan error, 1)
		t.calls.Go(func() { done <- t.world.Unreachable(t.ctx) })
		select {
		case err := <-done:
			if err == nil {
				t.Fatalf("Open of a backend that is not there succeeds")
			}
			t.Logf("the reason given: %v", err)
		case <-time.After(limit / 2):
			t.Fatalf("Open of a backend that is not there still waits")
		}
	},
}

// Messages that tell of grants and signals can be lost; heartbeats repair it.
var lostMessages = rule{
	name:  "LostMessages",
	hook:  "LoseMessages",
	says:  []string{"Renew also repairs whatever a lost message left undone: a grant that Await was not told of, a signal that was not delivered.", neverStray},
	alone: true, // a world may lose the messages of others, too
	check: func(t *trial) {
		a, b, c := t.client(), t.client(), t.client()
		held := a.hold(t.exclusive("q"))
		next := b.wait(t.exclusive("q"))
		other := b.hold(t.exclusive("r"))
		granted, evicted := make(chan error, 1), make(chan error, 1)
		t.calls.Go(func() {
			_, err := b.Await(t.ctx, next)
			granted <- err
		})
		small := c.hold(permits("s", 1, 2))
		big := b.wait(permits("s", 2, 2))
		t.calls.Go(func() {
			_, err := b.Await(t.ctx, big)
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
		if err := c.driver.Ask(t.ctx, "r", other.ID, driver.Revoke); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		if err := c.driver.Ask(t.ctx, "s", big.ID, driver.Evict); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		if t.fixes() {
			a.leave(first)
			if err := c.driver.Ask(t.ctx, "f", fixed.ID, driver.Evict); err != nil {
				t.Fatalf("Ask: %v", err)
			}
		}
		resume()
		if r, told := b.renew(next, other, big)[fixed.ID]; told {
			t.Fatalf("Renew reports a ticket with a fixed end that was not named, and of whose grant and eviction its session has not heard: %+v", r)
		}
		if err := <-granted; err != nil {
			t.Fatalf("Await of a grant whose news was lost, after Renew: %v%s", err, t.state(a.driver, "q"))
		}
		if err := <-evicted; !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Await of an evicted ticket after Renew: %v", err)
		}
		b.signal(driver.Revoke, other, next, big, fixed)
		b.signal(driver.Wanted, other, next, big, fixed)
		b.leave(other)
		c.await(last)
		c.leave(small)
	},
}
