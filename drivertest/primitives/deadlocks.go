package primitives

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock"
)

var deadlocks = rule{
	name:    "Deadlocks",
	promise: "Those who wait for each other without a time limit are named within seconds, by whom and for what they wait, until one gives up; a wait with a time limit is in no deadlock.",
	check: func(t *trial) {
		const n = 3
		looker := t.beating()
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.ctx)) // that of the rule has a deadline
		t.later(cancel)
		name := func(i int) string { return fmt.Sprint("ring/", i%n) }
		var clients [n]*interlock.Client
		var held [n]context.Context
		var leases [n]*interlock.Lease
		for i := range n {
			clients[i] = t.beating(interlock.Owner(fmt.Sprint("owner ", i)))
			leases[i] = t.acquire(clients[i].Mutex(name(i)))
			var free context.CancelFunc
			held[i], free = leases[i].Bind(ctx)
			t.later(free)
		}
		var waits [n]<-chan result
		for i := range n - 1 {
			waits[i] = t.asyncWith(held[i], clients[i].Mutex(name(i+1), interlock.Note("why")))
		}
		look := func() []interlock.Deadlock {
			t.Helper()
			found, err := interlock.Deadlocks(t.ctx, looker)
			t.ok(err, "Deadlocks")
			return found
		}
		none := func(what string) {
			t.Helper()
			for range 3 {
				if found := look(); len(found) > 0 {
					t.Fatalf("%s: %v", what, found)
				}
			}
		}
		bounded, giveUp := context.WithTimeout(held[n-1], 2*limit)
		t.later(giveUp)
		last := t.asyncWith(bounded, clients[n-1].Mutex(name(n)))
		t.waiting(looker, name(n), 1)
		time.Sleep(1500 * time.Millisecond) // the others are told
		none("a wait has a time limit")
		giveUp()
		t.is(wait(t, last, "the wait is given up").err, context.Canceled, "the wait that was given up")

		begun := time.Now()
		open, stop := context.WithCancel(held[n-1])
		t.later(stop)
		waits[n-1] = t.asyncWith(open, clients[n-1].Mutex(name(n), interlock.Note("why")))
		var found []interlock.Deadlock
		t.eventually("the deadlock is found", func() bool {
			found = look()
			return len(found) > 0
		})
		if len(found) != 1 || len(found[0].Waits) != n {
			t.Fatalf("found %v", found)
		}
		first := -1
		for i := range n {
			if found[0].Waits[0].Name == name(i+1) {
				first = i
			}
		}
		for k, w := range found[0].Waits {
			i := first + k
			if w.Name != name(i+1) || w.Owner != fmt.Sprint("owner ", i%n) || w.Note != "why" || w.Kind != "mutex" || w.By.Owner != fmt.Sprint("owner ", (i+1)%n) || w.By.Token != leases[(i+1)%n].Token() {
				t.Errorf("wait %d is %+v", k, w)
			}
		}
		t.Logf("named after %v", time.Since(begun).Round(time.Millisecond))

		stop()
		t.is(wait(t, waits[n-1], "the wait is given up").err, context.Canceled, "the wait that was given up")
		none("one has given up")
		t.release(leases[n-1])
		for i := n - 2; i >= 0; i-- {
			t.release(t.get(waits[i], "a wait that goes on"), leases[i])
		}
	},
}
