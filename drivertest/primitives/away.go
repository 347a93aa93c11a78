package primitives

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
)

var outageOfAWait = rule{
	name: "OutageOfAWait",
	promise: "Who waits while the backend goes away, and is not served in time, is told ErrUnavailable and not ErrBusy, whatever it waits for: " +
		"whether others hold the lock is not known.",
	exact: true, // a reply that is lost is an outage
	check: func(t *trial) {
		for _, way := range []string{"no renewal is answered", "the backend hangs"} {
			t.allow(limit + 5*t.TTL)
			d, err := t.world.Open(t.ctx)
			t.ok(err, "open a driver")
			off := &atomic.Bool{}
			begin := func() (end func()) { off.Store(true); return func() { off.Store(false) } }
			if way == "the backend hangs" {
				if begin = t.world.Hang; begin == nil {
					t.ok(d.Close(), "Close")
					break
				}
			}
			a, b := t.client(), t.over(cut{d, off}, t.TTL)
			held := t.acquire(a.Mutex("m"))
			idle, err := t.world.Open(t.ctx)
			t.ok(err, "open a driver")
			c := t.over(cut{idle, off}, t.TTL) // it has no tickets
			_, noCells := t.Unsupported["Barrier"]
			if !noCells {
				t.ok(a.Barrier("b").Set(t.ctx), "Set")
				_, err = a.Latch("l").Set(t.ctx, 1)
				t.ok(err, "Set")
			}

			budget := 4*t.TTL + time.Second
			wait := interlock.Wait(budget)
			ends, cancel := context.WithTimeout(t.ctx, budget)
			acquire := func(ctx context.Context, l *interlock.Lock) func() error {
				return func() error { _, err := l.Acquire(ctx); return err }
			}
			began := time.Now()
			waits := map[string]<-chan error{}
			for what, f := range map[string]func() error{
				"Acquire with Wait":                           acquire(t.ctx, b.Mutex("m", wait)),
				"Acquire with Wait, behind one of its client": acquire(t.ctx, b.Mutex("m", wait)),
				"Acquire with a deadline":                     acquire(ends, b.Mutex("m", interlock.StrictOrder())),
				"Acquire of All":                              acquire(t.ctx, interlock.All(b.Mutex("free"), b.Mutex("m", interlock.StrictOrder())).With(wait)),
				"Barrier.Wait":                                func() error { return b.Barrier("b").Wait(ends) },
				"Latch.Wait":                                  func() error { return b.Latch("l").Wait(ends) },
				"Barrier.Wait of a client that waits for nothing else": func() error { return c.Barrier("b").Wait(ends) },
				"DoubleBarrier.Enter": func() error { _, err := b.DoubleBarrier("d", 2).Enter(ends); return err },
			} {
				if !noCells || strings.HasPrefix(what, "Acquire") {
					waits[what] = t.done(f)
				}
			}
			t.waiting(a, "m", 3)
			if !noCells {
				t.eventually("a member waits for another", func() bool {
					n, _, err := a.DoubleBarrier("d", 2).Count(t.ctx)
					return err == nil && n == 1
				})
			}
			end := begin()
			if late := time.Since(began); late > budget-2*t.TTL {
				end()
				t.slow("all wait after %v", late)
			}
			for what, done := range waits {
				switch err := <-done; {
				case !errors.Is(err, interlock.ErrUnavailable), errors.Is(err, interlock.ErrBusy):
					t.Errorf("%s, while %s: %v", what, way, err)
				case what == "Acquire with a deadline" && !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("%s, while %s: %v does not say that its context has ended", what, way, err)
				}
			}
			end()
			cancel()
			t.release(held)
			if !noCells {
				t.ok(a.Barrier("b").Remove(t.ctx), "Remove")
				t.ok(a.Latch("l").Reset(t.ctx), "Reset")
			}
		}
	},
}
