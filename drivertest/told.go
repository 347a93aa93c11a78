package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
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
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	done := make(chan error, 1)
	t.calls.Go(func() { done <- wait(ctx) })
	time.Sleep(50 * time.Millisecond) // so that it waits; if not, the rule is easier to keep
	do()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("the call that waits: %v", err)
		}
		return true
	case <-time.After(soon):
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("the call that waits: %v", err)
		}
		return false
	}
}

var followIsTold = rule{
	name: "FollowIsTold",
	says: []string{followSays},
	check: func(t *trial) {
		a, b, watcher := t.client(), t.client(), t.driver()
		var queue string
		var first, second, third driver.Ticket
		steps := []struct {
			about string
			do    func()
			held  int
			waits int
		}{
			{"the only ticket comes", func() { first = a.hold(t.exclusive(queue)) }, 1, 0},
			{"the only ticket goes", func() { a.leave(first) }, 0, 0},
			{"one more comes", func() { first = a.hold(t.exclusive(queue)) }, 1, 0},
			{"the first waits", func() { second = b.wait(t.exclusive(queue)) }, 1, 1},
			{"the second waits", func() { third = a.wait(t.exclusive(queue)) }, 1, 2},
			{"the first is granted", func() { a.leave(first) }, 1, 1},
			{"the second goes", func() { a.leave(third) }, 1, 0},
			{"the last goes", func() { b.leave(second) }, 0, 0},
		}
		late := make([]int, len(steps))
		for n := range attempts + 1 { // the first time it may look because it has just begun to listen
			t.allow()
			queue = fmt.Sprint("q", n)
			a.leave(a.hold(t.exclusive(queue))) // for some backends the first ticket ever is another case
			for i, step := range steps {
				from := t.snapshot(watcher, queue).Version
				told := t.tells(func(ctx context.Context) error {
					for {
						q, err := watcher.Follow(ctx, queue, from)
						held := 0
						for _, m := range q.Members {
							if m.Held {
								held++
							}
						}
						if err != nil || held == step.held && len(q.Members) == step.held+step.waits {
							return err
						}
						from = q.Version
					}
				}, step.do)
				if !told && n > 0 {
					late[i]++
				}
			}
			if n > 0 && !slices.Contains(late, n) {
				return
			}
		}
		for i, step := range steps {
			if late[i] == attempts {
				t.Fatalf("%s, and Follow has not returned after %v, %d times", step.about, soon, attempts)
			}
		}
	},
}

var watchIsTold = rule{
	name: "WatchIsTold",
	says: []string{watchSays},
	check: func(t *trial) {
		a, watcher := t.driver(), t.driver()
		var c driver.Cell
		for n := range attempts + 1 { // as above
			t.allow()
			told := t.tells(func(ctx context.Context) error {
				_, err := watcher.Watch(ctx, "c", c.Version)
				return err
			}, func() { t.swap(a, set("c", c.Version, fmt.Sprint(n))) })
			if told && n > 0 {
				return
			}
			var err error
			if c, err = a.Load(t.ctx, "c"); err != nil {
				t.Fatalf("Load: %v", err)
			}
		}
		t.Fatalf("a cell has changed, and Watch has not returned after %v, %d times", soon, attempts)
	},
}
