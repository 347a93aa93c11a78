package drivertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// A driver may look by itself now and then, for news that was lost. That is not what "as
// soon as" means: here it has to be told. A busy machine may be slow once, and so each
// change is made a few times.
const (
	soon     = 5 * time.Second
	attempts = 3
)

// tells reports whether wait returns soon after do.
func (t *trial) tells(wait func(context.Context) error, do func()) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Ctx)
	defer cancel()
	done := t.Done(func() error { return wait(ctx) })
	time.Sleep(50 * time.Millisecond) // so that it waits; if not, the rule is easier to keep
	do()
	select {
	case err := <-done:
		t.OK(err, "the call that waits")
		return true
	case <-time.After(soon):
		cancel()
		t.OK(suite.Unless(<-done, context.Canceled), "the call that waits")
		return false
	}
}

var _ = rules.Add(rule{Name: "FollowIsTold", Says: []string{followSays}}, func(t *trial) {
	a, b, watcher := t.client(), t.client(), t.driver()
	var queue string
	// told makes a change and reports whether a follower sees it soon.
	told := func(held, waiting int, do func()) bool {
		t.Helper()
		from := t.snapshot(watcher, queue).Version
		return t.tells(func(ctx context.Context) error {
			for {
				q, err := watcher.Follow(ctx, queue, from)
				if err != nil || len(q.Members) == held+waiting && (held == 0 || q.Members[0].Held) {
					return err
				}
				from = q.Version
			}
		}, do)
	}
	queue = "before" // a driver that has just begun to listen looks, too
	var first, second, third driver.Ticket
	hold := func() { first = a.hold(t.exclusive(queue)) }
	told(1, 0, hold)

	steps := []struct {
		about         string
		held, waiting int
		do            func()
	}{
		{"the only ticket comes", 1, 0, hold},
		{"the only ticket goes", 0, 0, func() { a.leave(first) }},
		{"another one comes", 1, 0, hold},
		{"the first waits", 1, 1, func() { second = b.wait(t.exclusive(queue)) }},
		{"the second waits", 1, 2, func() { third = a.wait(t.exclusive(queue)) }},
		{"the first is granted", 1, 1, func() { a.leave(first) }},
		{"the second goes", 1, 0, func() { a.leave(third) }},
		{"the last goes", 0, 0, func() { b.leave(second) }},
	}
	late := make([]int, len(steps))
	for n := 1; ; n++ {
		t.Allow(0)
		queue = fmt.Sprint("q", n)
		a.leave(a.hold(t.exclusive(queue))) // for some backends the first ticket ever is another case
		for i, step := range steps {
			if !told(step.held, step.waiting, step.do) {
				late[i]++
			}
			t.FatalIf(late[i] == attempts,
				"%s, and Follow has not returned after %v, %d times", step.about, soon, attempts)
		}
		if !slices.Contains(late, n) {
			return
		}
	}
})

// The session waits for nothing, and no heartbeat comes: what says it is that which asks.
var _ = rules.Add(rule{Name: "DemandIsTold", Says: []string{
	"What Ask sends to a ticket that is held is delivered without one, soon: Revoke, or Evict, also for one that is taken away.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	for what, want := range map[driver.Demand]driver.Demand{driver.Revoke: driver.Revoke, driver.Evict: driver.Evict, driver.Force: driver.Evict} {
		for n := 1; ; n++ { // as above
			t.Allow(0)
			tk := a.hold(t.exclusive(fmt.Sprint("q", what, n)))
			told := t.tells(func(ctx context.Context) error {
				for {
					s, err := a.Signals(ctx)
					if err != nil || s.ID == tk.ID && s.Demand == want {
						return err
					}
				}
			}, func() {
				t.OK(t.known(func() error { return b.driver.Ask(t.Ctx, tk.Queue, tk.ID, what) }), "Ask (%d)", what)
			})
			if what != driver.Force {
				a.leave(tk)
			}
			if told {
				break
			}
			t.FatalIf(n == attempts,
				"Ask (%d) was sent to a ticket that is held, and Signals has not returned after %v, %d times", what, soon, attempts)
		}
	}
})

var _ = rules.Add(rule{Name: "WatchIsTold", Says: []string{watchSays}}, func(t *trial) {
	a, watcher := t.driver(), t.driver()
	var c driver.Cell
	for n := range attempts + 1 { // as above
		t.Allow(0)
		told := t.tells(func(ctx context.Context) error {
			_, err := watcher.Watch(ctx, "c", c.Version)
			return err
		}, func() { t.swap(a, set("c", c.Version, fmt.Sprint(n))) })
		if told && n > 0 {
			return
		}
		var err error
		c, err = a.Load(t.Ctx, "c")
		t.FatalIf(err != nil, "Load: %v", err)
	}
	t.Fatalf("a cell has changed, and Watch has not returned after %v, %d times", soon, attempts)
})
