package primitives

import (
	"slices"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

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
		t.Helper()
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
	if q := t.look(a, "s"); q.Capacity != 4 || !q.PermitsSet {
		t.Fatalf("four permits were set; inspection shows %+v", q)
	}
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
