package primitives

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/chaos"
)

// visit holds the lock for a moment.
func (t *trial) visit(h *chaos.Hall, l *interlock.Lock, units int64) {
	t.under(l, func(lease *interlock.Lease) {
		defer h.Leave(lease)
		t.OK(h.Enter(lease, units), "enter")
		time.Sleep(200 * time.Microsecond)
	})
}

var _ = rules.Add(rule{Name: "ReadersAndWriters", Says: []string{
	"Many readers hold a read-write lock together, or one writer alone.",
}}, func(t *trial) {
	a, b := t.pair()
	one, two, same := t.acquire(a.RWMutex("m").Reader()), t.acquire(b.RWMutex("m").Reader()), t.acquire(b.RWMutex("m").Reader())
	t.FatalIf(one.Exclusive(), "a reader's lease is exclusive")
	writer := t.queued(b, 1, a.RWMutex("m").Writer())
	t.release(one, two)
	notYet(t, writer, "the writer holds beside a reader")
	t.release(same)
	lease := t.get(writer, "the writer is served after the readers")
	t.FatalIf(!lease.Exclusive(), "a writer's lease is not exclusive")
	t.busy(a.RWMutex("m").Reader(), "a writer of this client holds it")
	t.busy(b.RWMutex("m").Reader(), "a writer holds it")
	t.busy(b.RWMutex("m").Writer(), "a writer holds it")
	t.release(lease)

	h := &chaos.Hall{Capacity: 1 << 30}
	t.Parallel(6, func(i int) {
		rw := []*interlock.Client{a, b}[i%2].RWMutex("crowd")
		for j := range 6 {
			if (i+j)%3 == 0 {
				t.visit(h, rw.Writer(), 1<<30)
			} else {
				t.visit(h, rw.Reader(), 1)
			}
		}
	})
})

var _ = rules.Add(rule{Name: "NoOvertaking", Says: []string{
	"A writer that waits keeps later readers out, of other clients and of those whose readers hold the lock.",
}}, func(t *trial) {
	a, b, c := t.beating(), t.client(), t.client()
	reader := t.acquire(a.RWMutex("m").Reader())
	writer := t.queued(b, 1, b.RWMutex("m").Writer())
	late := t.queued(b, 2, c.RWMutex("m").Reader())
	tries := 0
	t.Eventually("a client whose reader holds the lock hears of the writer", func() bool {
		lease, err := a.RWMutex("m").Reader().TryAcquire(t.Ctx)
		if err == nil {
			t.release(lease)
		}
		if tries++; tries > 2500 { // more than five seconds: a heartbeat and more
			t.Fatalf("%d readers of one client have overtaken a writer that waits", tries)
		}
		return errors.Is(err, interlock.ErrBusy)
	})
	mine := t.async(a.RWMutex("m").Reader())
	notYet(t, late, "a reader has overtaken a writer that waits")
	notYet(t, mine, "a reader beside one of its client has overtaken a writer that waits")
	t.release(reader)
	lease := t.get(writer, "the writer is served")
	notYet(t, late, "a reader holds beside a writer")
	notYet(t, mine, "a reader holds beside a writer")
	t.release(lease)
	t.release(t.get(late, "the late reader is served"), t.get(mine, "the late reader beside another is served"))
})

var _ = rules.Add(rule{Name: "Downgrade", Says: []string{
	"A writer that becomes a reader keeps its hold: readers get in beside it, and no writer before it releases.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	lease := t.acquire(a.RWMutex("m").Writer())
	reader := t.queued(c, 1, b.RWMutex("m").Reader())
	writer := t.queued(c, 2, c.RWMutex("m").Writer())
	token := lease.Token()
	t.OK(lease.Downgrade(t.Ctx), "Downgrade")
	beside := t.get(reader, "a reader that waits gets in beside a writer that has become one")
	notYet(t, writer, "a writer has got in beside one that has become a reader")
	t.OK(lease.Err(), "the lease after Downgrade")
	t.FatalIf(lease.Exclusive() || lease.Token() != token,
		"after Downgrade the lease is exclusive (%v) and has the token %d, which was %d", lease.Exclusive(), lease.Token(), token)
	q := t.look(c, "m")
	t.FatalIf(len(q.Holders) != 2 || q.Holders[0].Units != 1, "after Downgrade two readers hold; instead %+v", q)
	t.OK(lease.Downgrade(t.Ctx), "a second Downgrade")
	t.release(beside)
	notYet(t, writer, "a writer has got in beside one that has become a reader")
	t.passOn(lease, writer, "the writer is served once the readers have gone")

	mutex := t.acquire(a.Mutex("mutex"))
	t.Is(mutex.Downgrade(t.Ctx), interlock.ErrInvalid, "Downgrade of a mutex")
	t.release(mutex)
})

var _ = rules.Add(rule{Name: "Permits", Says: []string{
	"A semaphore never lends more permits than it has; who waits for several is not overtaken by who wants one.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	sem := func(c *interlock.Client, n int64) *interlock.Lock { return c.Semaphore("s", 5, interlock.Weight(n)) }
	one, two := t.acquire(sem(a, 2)), t.acquire(sem(b, 2))
	heavy := t.queued(a, 1, sem(c, 2))
	light := t.queued(a, 2, sem(b, 1))
	notYet(t, heavy, "six permits of five are lent")
	notYet(t, light, "a light one has overtaken a heavy one")
	t.release(one)
	three, four := t.get(heavy, "who waits for two is served"), t.get(light, "who waits for one is served")
	t.busy(sem(a, 1), "all permits are lent")
	t.release(two, three, four)
	all := t.acquire(sem(a, 5))
	t.FatalIf(!all.Exclusive(), "who has all permits does not hold exclusively")
	t.release(all)
	t.Is(suite.Err(sem(a, 6).Acquire(t.Ctx)), interlock.ErrInvalid, "six permits of five")

	h := &chaos.Hall{Capacity: 5}
	t.Parallel(6, func(i int) {
		for range 6 {
			n := 1 + rand.Int64N(5)
			t.visit(h, sem([]*interlock.Client{a, b, c}[i%3], n), n)
		}
	})
})

var _ = rules.Add(rule{Name: "Mismatch", Says: []string{
	"Users of one name who disagree on what it is, or on its capacity, get ErrMismatch, until nobody uses it.",
}}, func(t *trial) {
	a, b := t.pair()
	held := t.acquire(a.Semaphore("s", 3))
	for what, l := range map[string]*interlock.Lock{
		"semaphore of 4": b.Semaphore("s", 4), "mutex": b.Mutex("s"), "reader": b.RWMutex("s").Reader(),
		"candidate": b.Election("s").Candidate(""), "mutex of the same client": a.Mutex("s"),
	} {
		t.Is(t.refused(l), interlock.ErrMismatch, "a %s beside a semaphore of 3", what)
	}
	t.release(held, t.acquire(b.Semaphore("s", 3)))
	t.release(t.acquire(b.Semaphore("s", 4)))
	t.release(t.acquire(b.Mutex("s")))
})

var _ = rules.Add(rule{Name: "Shrinking", Says: []string{
	"A holder of permits can give back a part: who fits now is served at once, and the rest stays held.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	sem := func(c *interlock.Client, n int64) *interlock.Lock { return c.Semaphore("s", 25, interlock.Weight(n)) }
	lease := t.acquire(sem(a, 23))
	token := lease.Token()
	twelve := t.queued(c, 1, sem(b, 12))
	one := t.queued(c, 2, sem(c, 1))
	t.Is(lease.KeepPermits(t.Ctx, 24), interlock.ErrInvalid, "24 of 23 permits are to stay")
	t.Is(lease.KeepPermits(t.Ctx, 0), interlock.ErrInvalid, "no permit is to stay")
	t.OK(lease.KeepPermits(t.Ctx, 23), "as many permits as the lease has are to stay")
	notYet(t, twelve, "who wants twelve of two permits is served")
	t.OK(lease.KeepPermits(t.Ctx, lease.Permits()-10), "ten permits are given back")
	second := t.get(twelve, "who waits for twelve permits is served when ten of 23 are given back")
	notYet(t, one, "26 permits of 25 are lent")
	t.OK(lease.KeepPermits(t.Ctx, 13), "the same again")
	t.OK(lease.Err(), "the lease that was shrunk")
	t.FatalIf(lease.Permits() != 13 || lease.Token() != token,
		"a lease that was shrunk to 13 permits has %d, and the token %d instead of %d", lease.Permits(), lease.Token(), token)
	if q := t.look(c, "s"); len(q.Holders) != 2 || q.Holders[0].Units != 13 {
		t.Fatalf("a lease of 13 permits and one of 12 hold; instead %+v", q)
	}
	ctx, cancel := lease.Bind(t.Ctx)
	defer cancel()
	t.Is(suite.Err(sem(a, 13).TryAcquire(ctx)), interlock.ErrDeadlock, "13 permits of 25 by one who has 13")
	t.Is(suite.Err(sem(a, 12).TryAcquire(ctx)), interlock.ErrBusy, "12 permits of 25 by one who has 13 beside one who has 12")
	t.release(second)
	third := t.get(one, "who waits for one permit is served")
	t.passOn(lease, t.async(sem(b, 24)), "the rest is released")
	t.release(third)

	mutex := t.acquire(a.Mutex("mutex"))
	t.Is(mutex.KeepPermits(t.Ctx, 1), interlock.ErrInvalid, "KeepPermits of a mutex")
	t.release(mutex)
})

var _ = rules.Add(rule{Name: "HeldByTheClient", Says: []string{
	"A client says which leases of a name it has now.",
}}, func(t *trial) {
	a, b := t.pair()
	holds := func(c *interlock.Client, what string, want ...*interlock.Lease) {
		got := c.Leases("s")
		t.FatalIf(!slices.Equal(got, want),
			"%s: the client has %d leases, %d are wanted, or not in their order", what, len(got), len(want))
	}
	one := t.acquire(a.Semaphore("s", 2))
	holds(a, "one lease", one)
	holds(b, "a lease of another client")
	two := t.acquire(a.Semaphore("s", 2))
	other := t.acquire(a.Mutex("s/other"))
	waits := t.queued(a, 1, b.Semaphore("s", 2))
	holds(a, "two leases, and one of another name", one, two)
	holds(b, "a place in line")
	t.release(one)
	holds(a, "one of two was released", two)
	three := t.get(waits, "who waits is served")
	holds(b, "who waited holds", three)
	t.release(two, three, other)
	holds(a, "all were released")
})

var _ = rules.Add(rule{Name: "SetPermits", Says: []string{
	"The number of permits can be changed while they are held and waited for: who fits is served, holders stay, and nobody else holds until enough have left.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	sem := func(c *interlock.Client, n, of int64) *interlock.Lock {
		return c.Semaphore("s", of, interlock.Weight(n))
	}
	one, two := t.acquire(sem(a, 1, 2)), t.acquire(sem(b, 1, 2))
	next := t.queued(a, 1, sem(c, 2, 2))
	t.OK(c.Admin().SetPermits(t.Ctx, "s", 4), "SetPermits from 2 to 4")
	three := t.get(next, "who waits for two permits is served when there are two more")
	q := t.look(a, "s")
	t.FatalIf(q.Capacity != 4 || !q.PermitsSet, "four permits were set; inspection shows %+v", q)
	t.busy(sem(a, 1, 4), "all four permits are held")
	t.busy(sem(b, 1, 2), "all four permits are held, of which the program knows two")

	t.OK(c.Admin().SetPermits(t.Ctx, "s", 1), "SetPermits from 4 to 1")
	t.OK(one.Err(), "a holder beyond the new number")
	fourth := t.async(sem(a, 1, 4)) // says the number of before
	t.waiting(a, "s", 1)
	t.release(one, two)
	notYet(t, fourth, "one of one permit is lent, while another holds two")
	t.passOn(three, fourth, "enough have left")
	t.Is(suite.Err(sem(b, 2, 4).Acquire(t.Ctx)), interlock.ErrMismatch, "two permits, where one was set")
})

var _ = rules.Add(rule{Name: "SetPermitsStay", Says: []string{
	"The number of permits that was set counts for programs that say another one, until it is unset; without it a mismatch is an error.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	t.OK(a.Admin().SetPermits(t.Ctx, "s", 3), "SetPermits before anybody holds")
	for range 2 { // also when nobody has held in between
		old, next := t.acquire(a.Semaphore("s", 2)), t.acquire(b.Semaphore("s", 5))
		third := t.acquire(c.Semaphore("s", 2))
		t.busy(b.Semaphore("s", 5), "all three permits that were set are held")
		waits := t.queued(a, 1, a.Semaphore("s", 2))
		t.passOn(old, waits, "who says another number is served")
		t.release(next, third)
	}
	lease := t.acquire(b.Semaphore("s", 5))
	t.OK(c.Admin().UnsetPermits(t.Ctx, "s"), "UnsetPermits")
	t.Is(t.refused(a.Semaphore("s", 2)), interlock.ErrMismatch, "two permits, while three are in use and not set any more")
	t.release(lease)
	two := t.acquire(a.Semaphore("s", 2))
	t.Is(t.refused(b.Semaphore("s", 5)), interlock.ErrMismatch, "five permits beside two")
	t.release(two)

	mutex := t.acquire(a.Mutex("m"))
	t.Is(b.Admin().SetPermits(t.Ctx, "m", 2), interlock.ErrMismatch, "SetPermits of a mutex")
	t.Is(b.Admin().SetPermits(t.Ctx, "s", 0), interlock.ErrInvalid, "no permits")
	t.release(mutex)
})

// refused is why an acquire fails.
func (t *trial) refused(l *interlock.Lock) error {
	lease, err := l.Acquire(t.Ctx)
	if err == nil {
		t.release(lease)
	}
	return err
}
