package primitives

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// hall counts what is held of one lock, by leases that have not ended.
type hall struct {
	mu       sync.Mutex
	capacity int64
	inside   map[*interlock.Lease]int64
}

func (h *hall) enter(l *interlock.Lease, units int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inside == nil {
		h.inside = map[*interlock.Lease]int64{}
	}
	h.inside[l] = units
	used := int64(0)
	for lease, units := range h.inside {
		if lease.Err() == nil {
			used += units
		}
	}
	if used > h.capacity {
		return fmt.Errorf("%s: %d of %d units are held", l.Name(), used, h.capacity)
	}
	return nil
}

func (h *hall) leave(l *interlock.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.inside, l)
}

// visit holds the lock for a moment.
func (h *hall) visit(t *trial, l *interlock.Lock, units int64) error {
	return t.under(l, func(lease *interlock.Lease) error {
		defer h.leave(lease)
		err := h.enter(lease, units)
		time.Sleep(200 * time.Microsecond)
		return err
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

	h := &hall{capacity: 1 << 30}
	t.Parallel(6, func(i int) error {
		rw := []*interlock.Client{a, b}[i%2].RWMutex("crowd")
		for j := range 6 {
			lock, units := rw.Reader(), int64(1)
			if (i+j)%3 == 0 {
				lock, units = rw.Writer(), 1<<30
			}
			if err := h.visit(t, lock, units); err != nil {
				return err
			}
		}
		return nil
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
	if q := t.look(c, "m"); len(q.Holders) != 2 || q.Holders[0].Units != 1 {
		t.Fatalf("after Downgrade two readers hold; instead %+v", q)
	}
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

	h := &hall{capacity: 5}
	t.Parallel(6, func(i int) error {
		for range 6 {
			n := 1 + rand.Int64N(5)
			if err := h.visit(t, sem([]*interlock.Client{a, b, c}[i%3], n), n); err != nil {
				return err
			}
		}
		return nil
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
		lease, err := l.Acquire(t.Ctx)
		if err == nil {
			t.release(lease)
		}
		t.Is(err, interlock.ErrMismatch, "a %s beside a semaphore of 3", what)
	}
	t.release(held, t.acquire(b.Semaphore("s", 3)))
	t.release(t.acquire(b.Semaphore("s", 4)))
	t.release(t.acquire(b.Mutex("s")))
})
