package primitives

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

var _ = rules.Add(rule{Name: "ReportedDeath", Says: []string{
	"With ReportDeath the next holder is told when the work of the last one may be half done, and only then.",
}}, func(t *trial) {
	a, b := t.pair()
	robust := interlock.ReportDeath()
	for _, panics := range []bool{false, true, false} {
		w := t.work(a.Mutex("m", robust), t.fails(panics))
		next := t.queued(a, 1, b.Mutex("m", robust))
		w.end()
		t.OK(wait(t, w.done, "the work ends"), "Do")
		lease := t.get(next, "the next holder is served")
		t.FatalIf(lease.Inherited() != panics,
			"the last holder panicked: %v; the next one inherits: %v", panics, lease.Inherited())
		t.release(lease)
	}
})

var _ = rules.Add(rule{Name: "ReadersOfAReportedDeath", Says: []string{
	"With ReportDeath all readers who hold together are told that the work of the last writer may be half done, in one process and in several, and so is the next writer.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	robust := interlock.ReportDeath()
	w := t.work(a.RWMutex("m", robust).Writer(), t.fails(true))
	var next []<-chan result
	for _, reader := range []*interlock.Client{b, b, b, c} {
		next = append(next, t.async(reader.RWMutex("m", robust).Reader()))
	}
	t.waiting(a, "m", 2)
	w.end()
	t.OK(wait(t, w.done, "the work ends"), "Do")
	var readers []*interlock.Lease
	for i, r := range next {
		lease := t.get(r, "a reader is served")
		if readers = append(readers, lease); !lease.Inherited() {
			t.Errorf("the writer panicked, and reader %d of those who hold together does not inherit", i+1)
		}
	}
	writer := t.async(a.RWMutex("m", robust).Writer())
	t.release(readers...)
	last := t.get(writer, "the next writer is served")
	if !last.Inherited() {
		t.Errorf("the writer panicked, readers came after it, and the next writer does not inherit")
	}
	t.release(last)
	t.Eventually("a reader does not inherit after writers that left cleanly", func() bool { // the first may err to the safe side
		after := t.acquire(b.RWMutex("m", robust).Reader())
		inherited := after.Inherited()
		t.release(after)
		if inherited {
			t.release(t.acquire(a.RWMutex("m", robust).Writer()))
		}
		return !inherited
	})
})

var _ = rules.Add(rule{Name: "Election", Says: []string{
	"Candidates lead in the order in which they came, one at a time, and observers see who leads.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	seen, end := t.observe(c.Election("e"))
	campaign := func(c *interlock.Client, value string) <-chan result {
		return t.begin(func() (*interlock.Lease, error) { return c.Election("e").Campaign(t.Ctx, value) })
	}
	seen("")
	first := t.get(campaign(a, "first"), "the first candidate leads")
	seen("first")
	second := campaign(b, "second")
	t.waiting(c, "e", 1)
	stop := make(chan struct{})
	third := t.Done(func() error {
		return a.Election("e").Lead(t.Ctx, "third", func(context.Context) error { t.until(stop); return errWork })
	})
	t.waiting(c, "e", 2)
	notYet(t, second, "two lead")
	t.release(first)
	lease := t.get(second, "the second candidate leads when the first has resigned")
	seen("second")
	t.release(lease)
	seen("third")
	close(stop)
	t.Is(wait(t, third, "Lead ends when its function has returned"), errWork, "Lead")
	seen("")
	end()
})

var _ = rules.Add(rule{Name: "EndOfObserving", Says: []string{
	"Observe, Follow and Watch end with their context, without an error, also if the client is closed right after that.",
}}, func(t *trial) {
	for range 5 {
		c, err := interlock.New(t.Ctx, t.driver(), interlock.TTL(10*limit))
		t.OK(err, "open a client")
		observe := read(t, "Observe", c.Election("e").Observe)
		follow, watch := t.follow(c, "m"), read(t, "Watch", interlock.NewValue[int](c, "v").Watch)
		observe.until(func(interlock.Member) bool { return true }, "who leads")
		follow.until(func(interlock.Queue) bool { return true }, "the first state")
		watch.until(func(interlock.Snapshot[int]) bool { return true }, "the first value")
		observe.stop()
		follow.stop()
		watch.stop()
		closed := t.Done(c.Close)
		observe.ends()
		follow.ends()
		watch.ends()
		t.OK(wait(t, closed, "Close"), "Close")
	}
})

var _ = rules.Add(rule{Name: "LeaderValue", Says: []string{
	"A leader changes its value while it leads, and nobody else can: who asks and who observes sees the value of the one that leads now, or that nobody does.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	e, f, g := a.Election("e"), b.Election("e"), c.Election("e")
	seen, end := t.observe(g)
	leads := func(want string) {
		m, err := g.Leader(t.Ctx)
		if want == "" {
			t.Is(err, interlock.ErrNoLeader, "Leader, while nobody leads")
		} else if t.OK(err, "Leader"); m.Note != want {
			t.Fatalf("%q leads, it is said, and not %q", m.Note, want)
		}
		seen(want)
	}
	leads("")
	old, err := e.Campaign(t.Ctx, "old")
	t.OK(err, "Campaign")
	leads("old")
	t.OK(e.SetValue(t.Ctx, old, "old, ready"), "SetValue")
	leads("old, ready")
	second := t.begin(func() (*interlock.Lease, error) { return f.Campaign(t.Ctx, "next") })
	t.waiting(c, "e", 1)
	t.evict(c, old, true)
	next := t.get(second, "the next candidate leads")
	leads("next")
	t.OK(f.SetValue(t.Ctx, next, "next, ready"), "SetValue of the next leader")
	t.Is(e.SetValue(t.Ctx, old, "late"), interlock.ErrLost, "SetValue of a leader that was followed by another")
	leads("next, ready")
	t.Is(old.Release(), interlock.ErrLost, "release of a leadership that was taken away")
	t.release(next)
	t.Is(f.SetValue(t.Ctx, next, "released"), interlock.ErrLost, "SetValue of a leader that has resigned")
	leads("")
	end()
})

var _ = rules.Add(rule{Name: "Striping", Says: []string{
	"A striped lock keeps those apart who work on one key, in all clients, and hardly any others.",
}}, func(t *trial) {
	a, b := t.pair()
	const n = 4
	one, two := a.Striped("s", n), b.Striped("s", n)
	used := map[string]bool{}
	for i := range 100 {
		key := fmt.Sprint("key ", i)
		t.FatalIf(one.For(key).Name() != two.For(key).Name(),
			"the stripe of %q is %s for one client and %s for another", key, one.For(key).Name(), two.For(key).Name())
		used[one.For(key).Name()] = true
	}
	t.FatalIf(len(used) != n || one.Len() != n, "a hundred keys use %d stripes of %d", len(used), n)
	lease := t.acquire(one.For("key"))
	t.busy(two.For("key"), "another client holds the key")
	var others []*interlock.Lease
	for i := range n {
		if s := two.Stripe(i); s.Name() != lease.Name() {
			others = append(others, t.acquire(s))
		}
	}
	t.FatalIf(len(others) != n-1, "%d stripes of %d are others", len(others), n)
	t.release(lease)
	t.release(others...)
})

var _ = rules.Add(rule{Name: "Stickiness", Exact: true, Says: []string{
	"A sticky lock stays with its client after the last release, free of exchanges, until somebody else waits for it.",
}}, func(t *trial) {
	a, b := t.beating(), t.client()
	lock := a.Mutex("m", interlock.Sticky())
	t.release(t.acquire(lock))
	const times = 200
	before := a.Admin().Exchanges()
	for range times {
		lease, err := lock.Acquire(t.Ctx)
		t.OK(err, "acquire again")
		t.OK(lease.Release(), "release again")
	}
	if used := a.Admin().Exchanges() - before; used > times/10 { // heartbeats come all the time
		t.Fatalf("a sticky lock was acquired again %d times with %d exchanges", times, used)
	}
	t.release(t.get(t.async(b.Mutex("m")), "another client is served"))
	t.release(t.acquire(lock))
	t.release(t.acquire(b.Mutex("m"))) // it has it now: nothing is left
})

var _ = rules.Add(rule{Name: "Stored", Says: []string{
	"Stored shows the values that exist and the latches and barriers that are set, in the order of their names.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	shows := func(prefix string, want ...interlock.Stored) {
		var got []interlock.Stored
		for s, err := range b.Admin().Stored(t.Ctx, prefix) {
			t.OK(err, "Stored")
			got = append(got, s)
		}
		t.FatalIf(!slices.Equal(got, want), "Stored of %q shows %v, not %v", prefix, got, want)
	}
	shows("")
	t.release(t.acquire(a.Mutex("a/lock")))
	v := interlock.NewValue[string](a, "x/value")
	version, err := v.Set(t.Ctx, "one", 0)
	t.OK(err, "Set")
	t.OK(suite.Err(a.Latch("x").Set(t.Ctx, 2)), "Set")
	t.OK(a.Barrier("x").Set(t.Ctx), "Set")
	t.OK(a.Barrier("a-b").Set(t.Ctx), "Set")
	barrier := interlock.Stored{Name: "x", Kind: "barrier"}
	latch := interlock.Stored{Name: "x", Kind: "latch"}
	value := interlock.Stored{Name: "x/value", Kind: "value"}
	shows("", interlock.Stored{Name: "a-b", Kind: "barrier"}, barrier, latch, value)
	shows("x", barrier, latch, value)
	shows("x/", value)
	shows("x/value/")
	t.OK(a.Barrier("x").Remove(t.Ctx), "Remove")
	t.OK(v.Delete(t.Ctx, version), "Delete")
	shows("x", latch)
	t.OK(a.Latch("x").Reset(t.Ctx), "Reset")
	shows("x")
})

var _ = rules.Add(rule{Name: "Inspection", Says: []string{
	"Queue, Queues and Follow show who holds and who waits, in order, with owner, note, units, token and end; Follow tells of every change in the end.",
}}, func(t *trial) {
	a, b := t.client(interlock.Owner("owner a")), t.client(interlock.Owner("owner b"))
	c := t.client()
	follow := t.follow(c, "jobs/s")
	shows := func(holders, waiters int) (q interlock.Queue) {
		return follow.until(func(q interlock.Queue) bool {
			return len(q.Holders) == holders && len(q.Waiters) == waiters
		}, "%d holders and %d waiters", holders, waiters)
	}
	shows(0, 0)
	if q, err := c.Admin().Queue(t.Ctx, "jobs/s"); err != nil || q.Name != "jobs/s" || q.Kind != "" || len(q.Holders)+len(q.Waiters) > 0 {
		t.Fatalf("of a lock that nobody wants Queue shows %+v, %v", q, err)
	}
	before := time.Now()
	lease := t.acquire(a.Semaphore("jobs/s", 3, interlock.Weight(2), interlock.Note("why")))
	shows(1, 0)
	waits := t.async(b.Semaphore("jobs/s", 3, interlock.Weight(3)))
	q := shows(1, 1)
	fixed := t.acquire(b.Mutex("jobs/m", interlock.ExpiresAfter(10*limit)))
	other := t.acquire(b.Mutex("other"))

	h, w := q.Holders[0], q.Waiters[0]
	if q.Name != "jobs/s" || q.Kind != "semaphore" || q.Capacity != 3 ||
		h.Owner != "owner a" || h.Note != "why" || h.Units != 2 || h.Token != lease.Token() || h.Fixed || !strings.HasPrefix(lease.ID(), h.ID) ||
		w.Owner != "owner b" || w.Note != "" || w.Units != 3 || w.Token != 0 || w.ID == h.ID {
		t.Fatalf("Follow shows %+v", q)
	}
	if now, err := c.Admin().Queue(t.Ctx, "jobs/s"); err != nil || now.Kind != q.Kind || now.Capacity != q.Capacity ||
		len(now.Holders) != 1 || now.Holders[0].ID != h.ID || len(now.Waiters) != 1 || now.Waiters[0].ID != w.ID {
		t.Fatalf("Follow shows %+v, and Queue %+v, %v", q, now, err)
	}
	if left := h.Until.Sub(before); left < limit || left > 20*limit {
		t.Fatalf("Follow shows that the holder, with a TTL of %v, is over in %v", a.TTL(), left)
	}
	var names []string
	for q, err := range c.Admin().Queues(t.Ctx, "jobs/") {
		t.OK(err, "Queues")
		names = append(names, q.Name)
		t.FatalIf(q.Name == "jobs/m" && (len(q.Holders) != 1 || !q.Holders[0].Fixed),
			"Queues shows a lease of ExpiresAfter as %+v", q)
	}
	want := []string{"jobs/m", "jobs/s"}
	t.FatalIf(!slices.Equal(names, want), "Queues of jobs/ shows %q, not %q", names, want)
	t.release(fixed, other, lease)
	got := t.get(waits, "the waiter is served")
	shows(1, 0)
	t.release(got)
	shows(0, 0)
	follow.ends()
})

var _ = rules.Add(rule{Name: "Closing", Says: []string{
	"Close ends waiting and the contexts of what is held with ErrClosed, waits for running functions of Do, and gives everything back at once.",
}}, func(t *trial) {
	a, b := t.pair()
	blocker := t.acquire(b.Mutex("blocked"))
	waits, local := t.async(a.Mutex("blocked")), t.async(a.Mutex("blocked"))
	t.waiting(b, "blocked", 1)
	lease := t.acquire(a.Mutex("m"))
	ctx, cancel := lease.Bind(t.Ctx)
	defer cancel()
	w := t.work(a.Mutex("body"), func(ctx context.Context, over <-chan struct{}) error {
		t.until(ctx.Done())
		t.until(over)
		return context.Cause(ctx)
	})
	latch := t.Done(func() error { return a.Latch("l").Wait(t.Ctx) })
	notYet(t, latch, "a latch that was never set is open")
	next := t.queued(b, 1, b.Mutex("m"))

	closed := t.Done(a.Close)
	for what, c := range map[string]<-chan result{"a waiter": waits, "a waiter behind another one of its client": local} {
		t.Is(wait(t, c, what+" ends").err, interlock.ErrClosed, "%s", what)
	}
	t.Is(wait(t, latch, "who waits for a latch ends"), interlock.ErrClosed, "who waits for a latch")
	wait(t, ctx.Done(), "the context of what is held ends")
	t.Is(context.Cause(ctx), interlock.ErrClosed, "the context of what is held")
	notYet(t, closed, "Close has not waited for a function of Do")
	t.busy(b.Mutex("body"), "a function of Do is still running under it")
	w.end()
	t.Is(wait(t, w.done, "Do ends"), interlock.ErrClosed, "Do")
	t.OK(wait(t, closed, "Close ends"), "Close")
	t.release(t.get(next, "what was held is given back"))
	t.release(t.acquire(b.Mutex("body")))
	t.waiting(b, "blocked", 0)
	t.release(blocker)
	t.Is(suite.Err(a.Mutex("m").Acquire(t.Ctx)), interlock.ErrClosed, "Acquire after Close")
})
