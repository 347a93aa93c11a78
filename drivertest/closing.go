package drivertest

import (
	"context"
	"runtime"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/driver"
)

const closeFrees = "Close ends every call under way and frees what the driver holds."

var _ = rules.Add(rule{Name: "CloseEndsCalls", Says: []string{
	closeFrees,
	"Closing it again does nothing and returns nil.",
}}, func(t *trial) {
	d, shut := t.guest()
	a, b := t.session(d, 10*limit), t.client()
	b.hold(t.exclusive("q"))
	waiting := a.wait(t.exclusive("q"))
	q := t.snapshot(d, "q")
	calls := map[string]func() error{
		"Await": func() error { _, err := a.Await(t.Ctx, waiting); return err },
		"Signals": func() error {
			for {
				if _, err := a.Signals(t.Ctx); err != nil {
					return err
				}
			}
		},
		"Watch": func() error { _, err := d.Watch(t.Ctx, "c", 0); return err },
		"Follow": func() error {
			for {
				next, err := d.Follow(t.Ctx, "q", q.Version)
				if err != nil {
					return err
				}
				q.Version = next.Version
			}
		},
	}
	type result struct {
		name string
		err  error
	}
	results := make(chan result, len(calls))
	for name, call := range calls {
		t.Calls.Go(func() { results <- result{name, call()} })
	}
	time.Sleep(20 * time.Millisecond) // most are under way; any moment is right
	t.OK(shut(), "Close")
	for range 2 {
		t.OK(d.Close(), "Close, again")
	}
	for range calls {
		select {
		case r := <-results:
			t.FatalIf(r.err == nil, "%s that was under way when the driver was closed succeeds", r.name)
		case <-t.Ctx.Done():
			t.Fatalf("a call that was under way when the driver was closed does not end")
		}
	}

	_, open := d.Open(t.Ctx, driver.SessionOptions{TTL: t.TTL})
	_, load := d.Load(t.Ctx, "c")
	_, join := a.Join(t.Ctx, t.exclusive("r"))
	_, renew := a.Renew(t.Ctx, nil)
	_, follow := d.Follow(t.Ctx, "q", "")
	for name, err := range map[string]error{"Open": open, "Load": load, "Join": join, "Renew": renew, "Follow": follow} {
		t.FatalIf(err == nil, "%s of a closed driver succeeds", name)
	}
	t.stands(b.driver, "r", nil, nil)
})

var _ = rules.Add(rule{Name: "CloseWithOpenSessions", Says: []string{
	"Sessions that were not closed end as if their process had died.",
}}, func(t *trial) {
	d, shut := t.guest()
	a, b := t.session(d, t.TTL), t.client()
	a.join(t.exclusive("q"))
	a.join(t.exclusive("q"))
	next := b.join(t.exclusive("q"))
	b.beat(next)
	t.OK(shut(), "Close")
	t.FatalIf(!b.await(next).Inherited, "the next holder does not inherit from a client that died")
})

// sharedAtMost is how often a pool may grow that the clients of a process share.
const sharedAtMost = 10

// Waits that have ended and drivers that are closed leave nothing behind.
var _ = rules.Add(rule{Name: "NoLeftovers", Alone: true, Says: []string{closeFrees}}, func(t *trial) {
	a := t.client()
	a.hold(t.exclusive("q"))
	round := func() {
		d, shut := t.guest()
		b := t.session(d, t.TTL)
		waiting := b.join(t.exclusive("q"))
		ctx, cancel := context.WithTimeout(t.Ctx, time.Millisecond)
		b.Await(ctx, waiting)
		b.Signals(ctx)
		d.Watch(ctx, "c", 0)
		d.Follow(ctx, "q", t.snapshot(d, "q").Version)
		for range d.Queues(t.Ctx, "") {
			break
		}
		cancel()
		t.OK(shut(), "Close")
	}
	round() // what the process keeps for good is there now,
	within, most := time.Second, sharedAtMost
	if t.Simulated {
		most = 1 // there are none
	}
	for grown := 0; ; grown++ { // but for the connections that its clients share, which may become a few more
		before := goleak.IgnoreCurrent()
		goroutines := runtime.NumGoroutine()
		for range t.size(20, 5) {
			round()
		}
		err := leaked(before, within)
		if err == nil {
			return
		}
		t.FatalIf(grown == most,
			"%d goroutines became %d, %d times: %v", goroutines, runtime.NumGoroutine(), grown+1, err)
		within = leakLimit
		t.Allow(0)
	}
})
