package drivertest

import (
	"context"
	"runtime"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/driver"
)

const closeFrees = "Close ends every call under way and frees what the driver holds."

var closeEndsCalls = rule{
	name: "CloseEndsCalls",
	says: []string{closeFrees, "Closing it again does nothing and returns nil."},
	check: func(t *trial) {
		d, shut := t.guest()
		a, b := t.session(d, 10*limit), t.client()
		b.hold(t.exclusive("q"))
		waiting := a.wait(t.exclusive("q"))
		q := t.snapshot(d, "q")
		calls := map[string]func() error{
			"Await": func() error { _, err := a.Await(t.ctx, waiting); return err },
			"Signals": func() error {
				for {
					if _, err := a.Signals(t.ctx); err != nil {
						return err
					}
				}
			},
			"Watch": func() error { _, err := d.Watch(t.ctx, "c", 0); return err },
			"Follow": func() error {
				for {
					next, err := d.Follow(t.ctx, "q", q.Version)
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
			t.calls.Go(func() { results <- result{name, call()} })
		}
		time.Sleep(20 * time.Millisecond) // most are under way; any moment is right
		if err := shut(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		for range 2 {
			if err := d.Close(); err != nil {
				t.Fatalf("Close, again: %v", err)
			}
		}
		for range calls {
			select {
			case r := <-results:
				if r.err == nil {
					t.Fatalf("%s that was under way when the driver was closed succeeds", r.name)
				}
			case <-t.ctx.Done():
				t.Fatalf("a call that was under way when the driver was closed does not end")
			}
		}

		_, open := d.Open(t.ctx, driver.SessionOptions{TTL: t.TTL})
		_, load := d.Load(t.ctx, "c")
		_, join := a.Join(t.ctx, t.exclusive("r"))
		_, renew := a.Renew(t.ctx, nil)
		_, follow := d.Follow(t.ctx, "q", "")
		for name, err := range map[string]error{"Open": open, "Load": load, "Join": join, "Renew": renew, "Follow": follow} {
			if err == nil {
				t.Fatalf("%s of a closed driver succeeds", name)
			}
		}
		t.stands(b.driver, "r", nil, nil)
	},
}

var closeWithoutSessions = rule{
	name: "CloseWithOpenSessions",
	says: []string{"Sessions that were not closed end as if their process had died."},
	check: func(t *trial) {
		d, shut := t.guest()
		a, b := t.session(d, t.TTL), t.client()
		a.join(t.exclusive("q"))
		a.join(t.exclusive("q"))
		next := b.join(t.exclusive("q"))
		b.beat(next)
		if err := shut(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if got := b.await(next); !got.Inherited {
			t.Fatalf("the next holder does not inherit from a client that died")
		}
	},
}

// sharedAtMost is how often a pool may grow that the clients of a process share.
const sharedAtMost = 10

// Waits that have ended and drivers that are closed leave nothing behind.
var noLeftovers = rule{
	name:  "NoLeftovers",
	says:  []string{closeFrees},
	alone: true,
	check: func(t *trial) {
		a := t.client()
		a.hold(t.exclusive("q"))
		round := func() {
			d, shut := t.guest()
			b := t.session(d, t.TTL)
			waiting := b.join(t.exclusive("q"))
			ctx, cancel := context.WithTimeout(t.ctx, time.Millisecond)
			b.Await(ctx, waiting)
			b.Signals(ctx)
			d.Watch(ctx, "c", 0)
			d.Follow(ctx, "q", t.snapshot(d, "q").Version)
			for range d.Queues(t.ctx, "") {
				break
			}
			cancel()
			if err := shut(); err != nil {
				t.Fatalf("Close: %v", err)
			}
		}
		round()                     // what the process keeps for good is there now,
		for grown := 0; ; grown++ { // but for the connections that its clients share, which may become a few more
			before := goleak.IgnoreCurrent()
			goroutines := runtime.NumGoroutine()
			for range t.size(20, 5) {
				round()
			}
			err := leaked(before)
			if err == nil {
				return
			}
			if grown == sharedAtMost {
				t.Fatalf("%d goroutines became %d, %d times: %v", goroutines, runtime.NumGoroutine(), grown+1, err)
			}
			t.allow()
		}
	},
}
