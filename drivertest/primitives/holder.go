package primitives

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock"
)

var _ = rules.Add(rule{Name: "Reentrancy", Says: []string{
	"With Reentrant, a context that holds the lock acquires it again at once, and the lock is released when all its leases are.",
}}, func(t *trial) {
	a, b := t.pair()
	for _, innerFirst := range []bool{true, false} {
		lock := a.Mutex("m", interlock.Reentrant())
		outer := t.acquire(lock)
		ctx, cancel := outer.Bind(t.Ctx)
		inner := t.get(t.asyncWith(ctx, lock), "a holder acquires its lock again")
		t.FatalIf(inner.Token() != outer.Token(),
			"the tokens of one holder are %d and %d", outer.Token(), inner.Token())
		other := t.queued(b, 1, b.Mutex("m"))
		first, last := inner, outer
		if !innerFirst {
			first, last = outer, inner
		}
		t.release(first)
		notYet(t, other, "another client holds after one of two releases")
		t.OK(last.Err(), "the other lease of the holder")
		t.passOn(last, other, "another client is served after the last release")
		cancel()
	}
	rw := a.RWMutex("rw", interlock.Reentrant())
	t.OK(rw.Writer().Do(t.Ctx, func(ctx context.Context) error {
		return rw.Reader().Do(ctx, func(ctx context.Context) error {
			if _, ok := rw.Reader().Held(ctx); !ok {
				return errors.New("the reader is not told by Held that it holds")
			}
			return nil
		})
	}), "a writer that reads")
})

var _ = rules.Add(rule{Name: "Deadlock", Says: []string{
	"A context that holds a lock and asks for what it would wait for for ever gets ErrDeadlock at once; other contexts and other clients wait.",
}}, func(t *trial) {
	a, b := t.pair()
	held := t.acquire(a.Mutex("m"))
	ctx, cancel := held.Bind(t.Ctx)
	defer cancel()
	r := wait(t, t.asyncWith(ctx, a.Mutex("m")), "an answer at once")
	t.Is(r.err, interlock.ErrDeadlock, "a mutex by a context that holds it")
	t.busyWith(ctx, b.Mutex("m", interlock.Reentrant()), "another client holds it by the context")
	t.busyWith(ctx, b.Mutex("m"), "another client holds it by the context")
	t.busyWith(interlock.Detach(ctx), a.Mutex("m"), "the context that holds it was detached")

	reader := t.acquire(a.RWMutex("rw").Reader())
	readers, end := reader.Bind(t.Ctx)
	defer end()
	r = wait(t, t.asyncWith(readers, a.RWMutex("rw").Writer()), "an answer at once")
	t.Is(r.err, interlock.ErrDeadlock, "a reader that asks for the writer's side")

	two := t.acquire(a.Semaphore("s", 3, interlock.Weight(2)))
	permits, stop := two.Bind(t.Ctx)
	defer stop()
	r = wait(t, t.asyncWith(permits, a.Semaphore("s", 3, interlock.Weight(2))), "an answer at once")
	t.Is(r.err, interlock.ErrDeadlock, "two more permits of three by one who has two")
	third := t.get(t.asyncWith(permits, a.Semaphore("s", 3)), "the third permit of three by one who has two")
	t.release(held, reader, third, two)
})

var _ = rules.Add(rule{Name: "Held", Says: []string{
	"A context that a lease is bound to carries it, for this lock and this client only, until the lease is over; a detached one does not.",
}}, func(t *trial) {
	a, b := t.pair()
	lease := t.acquire(a.RWMutex("m").Writer())
	ctx, cancel := lease.Bind(t.Ctx)
	defer cancel()
	check := func(ctx context.Context, l *interlock.Lock, want bool, what string) {
		got, ok := l.Held(ctx)
		t.FatalIf(ok != want || ok && got != lease, "%s: Held says %v", what, ok)
	}
	check(ctx, a.RWMutex("m").Writer(), true, "the writer")
	check(ctx, a.RWMutex("m").Reader(), true, "the writer, who may read")
	check(ctx, a.RWMutex("other").Writer(), false, "another lock")
	check(ctx, b.RWMutex("m").Writer(), false, "another client")
	check(t.Ctx, a.RWMutex("m").Writer(), false, "another context")
	check(interlock.Detach(ctx), a.RWMutex("m").Writer(), false, "a detached context")
	t.release(lease)
	check(ctx, a.RWMutex("m").Writer(), false, "after the release")
	wait(t, ctx.Done(), "the context ends with the lease")
	t.Is(context.Cause(ctx), interlock.ErrReleased, "the cause")
})

var errWork = errors.New("the work has failed")

var _ = rules.Add(rule{Name: "Work", Says: []string{
	"Do holds the lock while its function runs, releases it afterwards, whatever the function does, and returns its error.",
}}, func(t *trial) {
	a, b := t.pair()
	lock := a.Mutex("m")
	t.Is(lock.Do(t.Ctx, func(ctx context.Context) error {
		if _, ok := lock.Held(ctx); !ok {
			t.Errorf("the function's context does not carry the lease")
		}
		t.busy(b.Mutex("m"), "the function runs")
		return errWork
	}), errWork, "Do")
	t.release(t.acquire(b.Mutex("m")))
	func() {
		defer func() {
			if p := recover(); p == nil {
				t.Errorf("Do has kept a panic to itself")
			}
		}()
		_ = lock.Do(t.Ctx, func(context.Context) error { panic("half done") })
	}()
	t.release(t.acquire(b.Mutex("m")))
})

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
		found, err := interlock.Deadlocks(t.Ctx, looker)
		t.OK(err, "Deadlocks")
		return found
	}
	none := func(what string) {
		for range 3 {
			found := look()
			t.FatalIf(len(found) > 0, "%s: %v", what, found)
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
