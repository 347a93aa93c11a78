package drivertest

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/process"
	"github.com/interlock-go/interlock/drivertest/internal/remote"
)

var _ = rules.Add(rule{Name: "KilledProcess", Processes: true, Says: []string{
	expires,
	inheritedSays,
}}, func(t *trial) {
	b, c := t.client(), t.client()
	holder, waiter := t.elsewhere(), t.elsewhere()
	t.session(holder, t.TTL).hold(t.exclusive("held"))
	front := b.hold(t.exclusive("waiting"))
	t.session(waiter, t.TTL).wait(t.exclusive("waiting"))
	next := b.join(t.exclusive("held"))
	last := c.wait(t.exclusive("waiting"))
	b.beat(next, front)
	c.beat(last)
	holder.process.Kill()
	waiter.process.Kill()
	t.FatalIf(!b.await(next).Inherited, "the next holder does not inherit from a process that was killed")
	b.leave(front)
	c.await(last)
})

var _ = rules.Add(rule{Name: "StoppedProcess", Processes: true, Says: []string{
	expires,
	"Proof is the local time from which the backend guarantees a held ticket for the session's TTL, or for its Hold: no other ticket takes its place before.",
}}, func(t *trial) {
	b, other := t.client(), t.elsewhere()
	a := t.session(other, t.TTL)
	held := a.lease(a.hold(t.exclusive("q")))
	if err := other.process.Stop(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("processes cannot be stopped on this system")
	} else if err != nil {
		t.Fatalf("stop a process: %v", err)
	}
	next := b.behind(t.exclusive("q"))
	got := next.notBefore(held.end(), "whose process is stopped")
	t.OK(other.process.Resume(), "resume a process")
	a.over(held.ticket)
	t.stands(b.driver, "q", []driver.Ticket{got}, nil)
})

var _ = rules.Add(rule{Name: "CountingProcesses", Exclusive: true, Processes: true, Says: []string{
	theRule,
}}, func(t *trial) {
	const processes = 4
	times := t.size(100, 25)
	file := t.log()
	drivers := make([]*elsewhere, processes)
	for i := range drivers {
		drivers[i] = t.elsewhere()
	}
	t.Parallel(processes, func(i int) error {
		return drivers[i].Work(t.Ctx, "log", task{Request: t.exclusive("q"), File: file, Times: times, TTL: 10 * limit})
	})
	n := t.oneAtATime(file)
	t.FatalIf(n != processes*times, "%d processes held %d times each, and the log has %d grants", processes, times, n)
})

// Processes that are killed and stopped at any instruction: by the account of
// each, no two ever hold at the same time, and the others go on.
var _ = rules.Add(rule{Name: "ProcessesThatDie", Processes: true, Says: []string{theRule, expires, tokensGrow}},
	func(t *trial) { disturb(t, (*process.Process).Stop, nil, nil, (*process.Process).Stop) })

var _ = rules.Add(rule{Name: "ProcessesThatAreKilled", Processes: true, Says: []string{theRule, expires, tokensGrow}},
	func(t *trial) { disturb(t, nil) })

// disturb lets processes work under one lock, and now and then stops one of them
// past its TTL, or kills it if there is no stop.
func disturb(t *trial, stops ...func(*process.Process) error) {
	const processes = 4
	file := t.log()
	ended := make(chan error, 100)
	started := 0
	start := func() *elsewhere {
		d := t.elsewhere()
		started++
		t.Calls.Go(func() {
			ended <- d.Work(t.Ctx, "log", task{Request: t.exclusive("q"), File: file, TTL: t.TTL})
		})
		return d
	}
	workers := make([]*elsewhere, processes)
	for i := range workers {
		workers[i] = start()
	}
	grants := func() int {
		all, err := spans(file)
		t.OK(err, "the log")
		return len(all)
	}
	goesOn := func(what string) {
		t.Helper()
		before := grants()
		t.Eventually("the others go on after "+what, func() bool {
			time.Sleep(10 * time.Millisecond)
			return grants() >= before+3
		})
	}
	goesOn("the start")
	for round := range t.size(8, 3) {
		time.Sleep(rand.N(30 * time.Millisecond)) // any instruction is right
		i := rand.IntN(processes)
		stop := stops[round%len(stops)]
		if stop == nil {
			workers[i].process.Kill()
			goesOn("a process was killed")
			workers[i] = start()
			continue
		}
		if err := stop(workers[i].process); errors.Is(err, errors.ErrUnsupported) {
			continue // on a system without signals
		} else if err != nil {
			t.Fatalf("stop a process: %v", err)
		}
		time.Sleep(t.TTL)
		goesOn("a process was stopped")
		t.OK(workers[i].process.Resume(), "resume a process")
		goesOn("it was resumed")
	}
	for _, w := range workers {
		w.process.Kill()
	}
	for range started {
		var failed *remote.Error
		if err := <-ended; errors.As(err, &failed) {
			t.Fatalf("a process that worked under the lock: %v", err)
		}
	}
	t.oneAtATime(file)
}

// log makes a file for processes that work under one lock.
func (t *trial) log() string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	t.OK(os.WriteFile(file, nil, 0o600), "make a log")
	return file
}

// oneAtATime reads the log of those that worked under one lock, and says how many grants it has.
func (t *trial) oneAtATime(file string) int {
	t.Helper()
	all, err := spans(file)
	t.OK(err, "the log")
	// Where the clock is coarse, two can begin at the same instant, or one when another ends.
	slices.SortFunc(all, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.token, b.token))
	})
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		t.FatalIf(a.last > b.first, "%s holds until %d by its own account, and %s from %d", a.id, a.last, b.id, b.first)
		t.FatalIf(a.token >= b.token, "the grant after the one with token %d has token %d", a.token, b.token)
	}
	t.Logf("%d grants", len(all))
	return len(all)
}
