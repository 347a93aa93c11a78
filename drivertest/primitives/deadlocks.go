package primitives

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock"
)

var _ = rules.Add(rule{Name: "Deadlocks", Says: []string{
	"Those who wait for each other without a time limit are named within seconds, by whom and for what they wait, until one gives up; a wait with a time limit, or for what a waiter has given up, is in no deadlock.",
}}, func(t *trial) {
	const n = 3
	looker := t.beating()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Ctx)) // that of the rule has a deadline
	t.Later(cancel)
	name := func(i int) string { return fmt.Sprint("ring/", i%n) }
	var clients [n]*interlock.Client
	var held [n]context.Context
	var leases [n]*interlock.Lease
	for i := range n {
		clients[i] = t.beating(interlock.Owner(fmt.Sprint("owner ", i)))
		leases[i] = t.acquire(clients[i].Mutex(name(i)))
		var free context.CancelFunc
		held[i], free = leases[i].Bind(ctx)
		t.Later(free)
	}
	// One of them holds more, for a while: as a reader, which another lease of its client is, too.
	more := clients[0].RWMutex("more")
	side := t.acquire(more.Reader())
	beside := t.acquire(more.Reader())
	both, free := side.Bind(held[0])
	t.Later(free)
	held[0] = context.WithoutCancel(both)
	var waits [n]<-chan result
	for i := range n - 1 {
		with, cancel := context.WithCancel(held[i])
		t.Later(cancel)
		waits[i] = t.asyncWith(with, clients[i].Mutex(name(i+1), interlock.Note("why")))
	}
	look := func() []interlock.Deadlock {
		t.Helper()
		found, err := interlock.Deadlocks(t.Ctx, looker)
		t.OK(err, "Deadlocks")
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
	t.Later(giveUp)
	fixed := t.acquire(clients[n-1].Mutex("fixed", interlock.ExpiresAfter(2*limit)))
	withIt, end := fixed.Bind(held[n-1])
	t.Later(end)
	lasts, letGo := context.WithCancel(held[n-1])
	t.Later(letGo)
	last := map[string]<-chan result{
		"a wait has a time limit":    t.asyncWith(bounded, clients[n-1].Mutex(name(n))),
		"a wait ends with a lease":   t.asyncWith(withIt, clients[n-1].Mutex(name(n))),
		"a wait is for another lock": t.asyncWith(lasts, clients[n-1].RWMutex("more").Writer()),
	}
	t.waiting(looker, name(n), 1)
	t.waiting(looker, "more", 1)
	time.Sleep(1500 * time.Millisecond) // the others are told
	t.release(side)
	none("the waits end by themselves, or are for a lock that is not held any more by those who wait")
	giveUp()
	end()
	letGo()
	for why, c := range last {
		t.Is(wait(t, c, "the wait is given up").err, context.Canceled, "%s", why)
	}
	t.release(fixed, beside)

	begun := time.Now()
	open, stop := context.WithCancel(held[n-1])
	t.Later(stop)
	waits[n-1] = t.asyncWith(open, clients[n-1].Mutex(name(n), interlock.Note("why")))
	var found []interlock.Deadlock
	t.Eventually("the deadlock is found", func() bool {
		found = look()
		return len(found) > 0
	})
	t.FatalIf(len(found) != 1 || len(found[0].Waits) != n, "found %v", found)
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
	t.Is(wait(t, waits[n-1], "the wait is given up").err, context.Canceled, "the wait that was given up")
	none("one has given up")
	t.release(leases[n-1])
	for i := n - 2; i >= 0; i-- {
		t.release(t.get(waits[i], "a wait that goes on"), leases[i])
	}
})
