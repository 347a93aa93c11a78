package primitives

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

var _ = rules.Add(rule{Name: "Barrier", Says: []string{
	"A barrier keeps everybody waiting from Set until Remove.",
}}, func(t *trial) {
	a, b := t.pair()
	t.OK(a.Barrier("b").Wait(t.Ctx), "Wait for a barrier that was never set")
	t.OK(a.Barrier("b").Set(t.Ctx), "Set")
	t.OK(b.Barrier("b").Set(t.Ctx), "a second Set")
	one := t.Done(func() error { return a.Barrier("b").Wait(t.Ctx) })
	two := t.Done(func() error { return b.Barrier("b").Wait(t.Ctx) })
	notYet(t, one, "a closed barrier lets its own client through")
	notYet(t, two, "a closed barrier lets another client through")
	set, err := b.Barrier("b").IsSet(t.Ctx)
	t.OK(err, "IsSet")
	t.FatalIf(!set, "IsSet says that a closed barrier is open")
	t.OK(b.Barrier("b").Remove(t.Ctx), "Remove")
	t.OK(wait(t, one, "an open barrier lets another client through"), "Wait")
	t.OK(wait(t, two, "an open barrier lets its own client through"), "Wait")
	t.OK(a.Barrier("b").Remove(t.Ctx), "a second Remove")
})

var _ = rules.Add(rule{Name: "Latch", Says: []string{
	"A latch is set once, every count takes one off, whoever counts, and it opens at zero; after Reset it can be set again.",
}}, func(t *trial) {
	a, b := t.pair()
	waiting := t.Done(func() error { return b.Latch("l").Wait(t.Ctx) })
	const n = 12
	for i, c := range []*interlock.Client{a, b} {
		set, err := c.Latch("l").Set(t.Ctx, n+int64(i))
		t.OK(err, "Set")
		t.FatalIf(set != (i == 0), "Set number %d says %v", i+1, set)
	}
	var mu sync.Mutex
	seen := map[int64]bool{}
	t.Parallel(n-1, func(i int) {
		left, err := []*interlock.Client{a, b}[i%2].Latch("l").CountDown(t.Ctx)
		t.OK(err, "CountDown")
		mu.Lock()
		defer mu.Unlock()
		seen[left] = true
	})
	t.FatalIf(len(seen) != n-1 || !seen[1], "%d counts left %v", n-1, seen)
	notYet(t, waiting, "the latch is open before the last count")
	left, err := a.Latch("l").CountDown(t.Ctx)
	t.OK(err, "CountDown")
	t.FatalIf(left != 0, "after %d counts %d are left", n, left)
	t.OK(wait(t, waiting, "the latch opens at zero"), "Wait")
	t.OK(b.Latch("l").Reset(t.Ctx), "Reset")
	set, err := a.Latch("l").Set(t.Ctx, 1)
	t.OK(err, "Set after Reset")
	t.FatalIf(!set, "a latch that was reset cannot be set again")
	again := t.Done(func() error { return b.Latch("l").Wait(t.Ctx) })
	notYet(t, again, "a latch that was set again is open")
	t.OK(suite.Err(b.Latch("l").CountDown(t.Ctx)), "CountDown")
	t.OK(wait(t, again, "a latch that was set again opens at zero"), "Wait")
})

var _ = rules.Add(rule{Name: "Values", Says: []string{
	"A value is changed by who knows its version, once for each change, whoever else changes it; a version never comes back, not even after Delete.",
}}, func(t *trial) {
	a, b := t.pair()
	v, w := interlock.NewValue[int](a, "v"), interlock.NewValue[int](b, "v")
	first, err := v.Set(t.Ctx, 7, 0)
	t.OK(err, "Set of a value that never was")
	t.Is(suite.Err(w.Set(t.Ctx, 8, 0)), interlock.ErrConflict, "Set with version 0 of a value that is")
	second, err := w.Set(t.Ctx, 8, first)
	t.OK(err, "Set with the version that is")
	t.Is(suite.Err(v.Set(t.Ctx, 9, first)), interlock.ErrConflict, "Set with an old version")
	t.Is(v.Delete(t.Ctx, first), interlock.ErrConflict, "Delete with an old version")
	t.OK(v.Delete(t.Ctx, second), "Delete")
	got, err := w.Get(t.Ctx)
	t.OK(err, "Get")
	t.FatalIf(got.Exists || got.Value != 0 || got.Version <= second || first >= second,
		"after Delete it is %+v, after the versions %d and %d", got, first, second)
	t.Is(suite.Err(w.Set(t.Ctx, 9, second)), interlock.ErrConflict, "Set with the version that was deleted")
	third, err := w.Set(t.Ctx, 0, got.Version)
	t.OK(err, "Set with the version of the deleted value")
	t.OK(v.Delete(t.Ctx, third), "Delete, again")
	fourth, err := w.Set(t.Ctx, 0, 0)
	t.OK(err, "Set with version 0 of a value that was deleted")
	t.FatalIf(fourth <= third, "it has version %d after %d", fourth, third)
	got, err = v.Get(t.Ctx)
	t.FatalIf(err != nil || !got.Exists || got.Version != fourth,
		"a zero that was set with version %d: %+v, %v", fourth, got, err)

	const each = 6
	t.Parallel(4, func(i int) {
		for range each {
			value := []*interlock.Value[int]{v, w}[i%2]
			t.OK(suite.Err(value.Update(t.Ctx, func(n int) (int, error) { return n + 1, nil })), "Update")
		}
	})
	got, err = v.Get(t.Ctx)
	t.FatalIf(err != nil || got.Value != 4*each, "%d additions of one make %d, %v", 4*each, got.Value, err)
})

var _ = rules.Add(rule{Name: "Watching", Says: []string{
	"Watch tells of a value and of its changes, and never misses the last.",
}}, func(t *trial) {
	a, b := t.pair()
	v := interlock.NewValue[int](a, "v")
	watch := read(t, "Watch", interlock.NewValue[int](b, "v").Watch)
	until := func(want int) {
		watch.until(func(v interlock.Snapshot[int]) bool { return v.Value == want }, "the last change, to %d", want)
	}
	until(0)
	for i := 1; i <= 20; i++ {
		t.OK(suite.Err(v.Update(t.Ctx, func(int) (int, error) { return i, nil })), "Update")
	}
	until(20)
	got, err := v.Get(t.Ctx)
	t.OK(err, "Get")
	t.OK(v.Delete(t.Ctx, got.Version), "Delete")
	until(0)
	watch.ends()
})

var _ = rules.Add(rule{Name: "DoubleBarrier", Says: []string{
	"The members of a double barrier enter together and leave together, and no round begins before the one before it is over.",
}}, func(t *trial) {
	a, b := t.pair()
	enter := func(c *interlock.Client, n int) <-chan result {
		return t.begin(func() (*interlock.Lease, error) { return c.DoubleBarrier("d", n).Enter(t.Ctx) })
	}
	first, second := enter(a, 3), enter(b, 3)
	notYet(t, first, "two of three have entered")
	notYet(t, second, "two of three have entered")
	third := enter(a, 3)
	one, two, three := t.get(first, "the first enters"), t.get(second, "the second enters"), t.get(third, "the third enters")
	t.Is(suite.Err(b.DoubleBarrier("d", 2).Enter(t.Ctx)), interlock.ErrMismatch, "one that wants another number of members")

	later := []<-chan result{enter(b, 3), enter(a, 3), enter(b, 3)}
	t.Eventually("the members of the next round stand in line", func() bool {
		q := t.look(a, "d") // the one that wanted another number may be leaving still
		notes := map[string]int{}
		for _, m := range append(q.Holders, q.Waiters...) {
			notes[m.Note]++
		}
		return len(notes) == 1 && len(q.Holders)+len(q.Waiters) == 6
	})
	count := func(waiting, inside int) {
		w, i, err := b.DoubleBarrier("d", 3).Count(t.Ctx)
		t.OK(err, "Count")
		t.FatalIf(w != waiting || i != inside,
			"Count says that %d wait and %d are inside, not %d and %d", w, i, waiting, inside)
	}
	count(3, 3)
	overlap := func() {
		for _, w := range later {
			notYet(t, w, "a round has begun before the one before it is over")
		}
	}
	overlap()
	left := t.Done(func() error { return a.DoubleBarrier("d", 3).Leave(t.Ctx, one) })
	t.Eventually("the first has left", func() bool {
		q := t.look(a, "d")
		return len(q.Holders)+len(q.Waiters) == 5
	})
	notYet(t, left, "one of three has left")
	overlap()
	count(3, 2)
	t.release(two) // without waiting for the others
	overlap()
	t.OK(b.DoubleBarrier("d", 3).Leave(t.Ctx, three), "Leave of the last")
	t.OK(wait(t, left, "the first leaves with the last"), "Leave")
	var round []*interlock.Lease
	for _, w := range later {
		round = append(round, t.get(w, "the next round begins"))
	}
	t.release(round...)
})

var _ = rules.Add(rule{Name: "Returning", Says: []string{
	"A member of a double barrier that is taken for dead while it waits comes again.",
}}, func(t *trial) {
	off := &atomic.Bool{}
	a := t.cutOff(off)
	b := t.beating()
	enter := func(c *interlock.Client) <-chan result {
		return t.begin(func() (*interlock.Lease, error) { return c.DoubleBarrier("d", 2).Enter(t.Ctx) })
	}
	first := enter(a)
	place := func() string {
		if q := t.look(b, "d"); len(q.Holders) == 1 {
			return q.Holders[0].ID
		}
		return ""
	}
	t.Eventually("the first waits", func() bool { return place() != "" })
	dead := place()
	off.Store(true)
	t.Eventually("the first is taken for dead", func() bool { return place() != dead })
	off.Store(false)
	back := ""
	t.Eventually("the first comes again", func() bool { back = place(); return back != "" && back != dead })
	second := t.get(enter(b), "the second enters with it")
	t.Eventually("the first enters", func() bool {
		stands := slices.ContainsFunc(t.look(b, "d").Holders, func(m interlock.Member) bool { return m.ID == back })
		if !stands && len(first) == 0 {
			t.Slow("the first has lost its place again")
		}
		return len(first) > 0
	})
	t.release(second, t.get(first, "the first enters"))
})
