package primitives

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// Exact: a reply that is lost is an outage.
var _ = rules.Add(rule{Name: "OutageOfAWait", Long: true, Exact: true, Says: []string{"Who waits while the backend goes away, and is not served in time, is told ErrUnavailable and not ErrBusy, whatever it waits for: " +
	"whether others hold the lock is not known."}}, func(t *trial) {
	for _, way := range []string{"no renewal is answered", "the backend hangs"} {
		t.Allow(5 * t.TTL)
		off := &atomic.Bool{}
		begin := func() (end func()) { off.Store(true); return func() { off.Store(false) } }
		if way == "the backend hangs" {
			if begin = t.world.Hang; begin == nil {
				break
			}
		}
		a, b := t.client(), t.cutOff(off)
		held := t.acquire(a.Mutex("m"))
		c := t.cutOff(off) // it has no tickets
		_, noCells := t.Unsupported["Barrier"]
		if !noCells {
			t.OK(a.Barrier("b").Set(t.Ctx), "Set")
			t.OK(suite.Err(a.Latch("l").Set(t.Ctx, 1)), "Set")
		}

		budget := 4*t.TTL + time.Second
		wait := interlock.Wait(budget)
		ends, cancel := context.WithTimeout(t.Ctx, budget)
		acquire := func(ctx context.Context, l *interlock.Lock) func() error {
			return func() error { _, err := l.Acquire(ctx); return err }
		}
		began := time.Now()
		waits := map[string]<-chan error{}
		for what, f := range map[string]func() error{
			"Acquire with Wait":                           acquire(t.Ctx, b.Mutex("m", wait)),
			"Acquire with Wait, behind one of its client": acquire(t.Ctx, b.Mutex("m", wait)),
			"Acquire with a deadline":                     acquire(ends, b.Mutex("m", interlock.StrictOrder())),
			"Acquire of All":                              acquire(t.Ctx, interlock.All(b.Mutex("free"), b.Mutex("m", interlock.StrictOrder())).With(wait)),
			"Barrier.Wait":                                func() error { return b.Barrier("b").Wait(ends) },
			"Latch.Wait":                                  func() error { return b.Latch("l").Wait(ends) },
			"Barrier.Wait of a client that waits for nothing else": func() error { return c.Barrier("b").Wait(ends) },
			"DoubleBarrier.Enter": func() error { _, err := b.DoubleBarrier("d", 2).Enter(ends); return err },
		} {
			if !noCells || strings.HasPrefix(what, "Acquire") {
				waits[what] = t.Done(f)
			}
		}
		t.waiting(a, "m", 3)
		if !noCells {
			t.Eventually("a member waits for another", func() bool {
				n, _, err := a.DoubleBarrier("d", 2).Count(t.Ctx)
				return err == nil && n == 1
			})
		}
		end := begin()
		if late := time.Since(began); late > budget-2*t.TTL {
			end()
			t.Slow("all wait after %v", late)
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
			t.OK(a.Barrier("b").Remove(t.Ctx), "Remove")
			t.OK(a.Latch("l").Reset(t.Ctx), "Reset")
		}
	}
})
