package primitives

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/chaos"
)

var _ = rules.Add(rule{Name: "Exclusion", Says: []string{
	"A mutex is held by one at a time, of all goroutines of all clients, and each grant has a larger token.",
}}, func(t *trial) {
	a, b := t.pair()
	var w chaos.Witness
	t.Parallel(8, func(i int) {
		lock := []*interlock.Client{a, b}[i%2].Mutex("m")
		if i/2%2 == 0 {
			lock = lock.With(interlock.StrictOrder())
		}
		for range 8 {
			t.under(lock, func(lease *interlock.Lease) {
				defer w.Leave(lease)
				t.OK(suite.Err(w.Enter(lease)), "enter")
				time.Sleep(200 * time.Microsecond) // let the others in, if they can get in
			})
		}
	})
})

var _ = rules.Add(rule{Name: "Order", Says: []string{
	"Those who wait are served in the order of their calls: of all clients with StrictOrder, and those of one client.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	const each = 3
	strict := func(c *interlock.Client) *interlock.Lock { return c.Mutex("strict", interlock.StrictOrder()) }
	lined := func(lock func(int) *interlock.Lock, queued func(int)) {
		var mu sync.Mutex
		var served []int
		var waits []func()
		holder := t.acquire(lock(0))
		for i := range 3 * each {
			waits = append(waits, t.Go(func() {
				t.under(lock(i), func(*interlock.Lease) {
					mu.Lock()
					defer mu.Unlock()
					served = append(served, i)
				})
			}))
			queued(i + 1)
		}
		t.release(holder)
		for _, wait := range waits {
			wait()
		}
		t.FatalIf(!slices.IsSorted(served), "served in the order %v", served)
	}
	lined(func(i int) *interlock.Lock { return strict([]*interlock.Client{a, a, b, c}[i%4]) },
		func(n int) { t.waiting(c, "strict", n) })
	if t.Simulated { // else nobody can know when a goroutine has called
		lined(func(int) *interlock.Lock { return a.Mutex("m") }, func(int) { t.settle() })
	}
})

var _ = rules.Add(rule{Name: "Tokens", Says: []string{
	"The token of an exclusive lease grows with every grant, over releases, over the lock having been free, and over a floor that was set.",
}}, func(t *trial) {
	a, b := t.pair()
	var last uint64
	next := func(l *interlock.Lock) {
		lease := t.acquire(l)
		got := lease.Token()
		t.FatalIf(got <= last || got >= 1<<63, "the token is %d after %d", got, last)
		last = lease.Token()
		t.release(lease)
	}
	for range 2 {
		next(a.Mutex("m"))
		next(a.Mutex("m", interlock.StrictOrder()))
		next(b.Mutex("m", interlock.ExpiresAfter(limit)))
	}
	floor := last + 1<<24
	t.OK(b.Admin().RaiseToken(t.Ctx, "m", floor), "RaiseToken")
	last = floor
	next(a.Mutex("m"))
	next(b.Mutex("m"))

	// Handed over between goroutines.
	var w chaos.Witness
	t.Parallel(4, func(int) {
		for range 5 {
			t.under(a.Mutex("m"), func(lease *interlock.Lease) {
				t.FatalIf(lease.Token() <= last, "the token is %d after %d", lease.Token(), last)
				defer w.Leave(lease)
				t.OK(suite.Err(w.Enter(lease)), "enter")
			})
		}
	})
})

var _ = rules.Add(rule{Name: "Cancellation", Says: []string{
	"A wait that is cancelled leaves nothing behind: nobody else waits for it, and a grant that came just then goes to the next. A context that has ended acquires nothing.",
}}, func(t *trial) {
	a, b := t.pair()
	over, cancel := context.WithCancel(t.Ctx)
	cancel()
	lease, err := a.Mutex("free").Acquire(over)
	t.FatalIf(!errors.Is(err, context.Canceled), "Acquire with a context that has ended: %v, %v", lease, err)
	for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}} {
		holder := t.acquire(a.Mutex("m", opts...))
		ctx, cancel := context.WithCancel(t.Ctx)
		first := t.asyncWith(ctx, b.Mutex("m", opts...))
		t.waiting(a, "m", 1)
		behind := t.queued(a, 2, t.client().Mutex("m", opts...))
		cancel()
		t.Is(wait(t, first, "a cancelled wait ends").err, context.Canceled, "a cancelled wait")
		t.waiting(a, "m", 1)
		t.passOn(holder, behind, "who waited behind a cancelled wait is served")
	}
	for i := range 20 { // just when the lock is released
		holder := t.acquire(a.Mutex("m"))
		ctx, cancel := context.WithCancel(t.Ctx)
		first := t.asyncWith(ctx, b.Mutex("m"))
		t.waiting(a, "m", 1)
		if i%2 == 0 {
			go cancel()
			t.release(holder)
		} else {
			freed := t.Done(holder.Release)
			cancel()
			t.OK(wait(t, freed, "the release"), "release")
		}
		if r := wait(t, first, "a cancelled wait ends"); r.err == nil {
			t.release(r.lease)
		}
		cancel()
		t.release(t.acquire(a.Mutex("m")))
	}
})

var _ = rules.Add(rule{Name: "Bounds", Exact: true, Says: []string{
	"Wait bounds how long an acquire waits, and TryAcquire does not wait: then ErrBusy, and nothing is left behind. Neither overtakes anybody.",
}}, func(t *trial) {
	a, b := t.pair()
	holder := t.acquire(a.Mutex("m"))
	for _, l := range []*interlock.Lock{b.Mutex("m"), a.Mutex("m"), b.Mutex("m", interlock.StrictOrder())} {
		t.Is(suite.Err(l.TryAcquire(t.Ctx)), interlock.ErrBusy, "TryAcquire of a lock that is held")
		t.Is(suite.Err(l.With(interlock.Wait(0)).Acquire(t.Ctx)), interlock.ErrBusy, "Acquire with Wait(0) of a lock that is held")
		began := time.Now()
		_, err := l.With(interlock.Wait(50 * time.Millisecond)).Acquire(t.Ctx)
		if errors.Is(err, interlock.ErrUnavailable) {
			t.Slow("the backend has not answered within 50 ms")
		}
		t.Is(err, interlock.ErrBusy, "Acquire with Wait of a lock that is held")
		took := time.Since(began)
		t.FatalIf(took < 50*time.Millisecond, "Wait(50ms) has ended after %v", took)
	}
	t.waiting(a, "m", 0)
	t.release(holder)
	lease, err := b.Mutex("m").TryAcquire(t.Ctx)
	t.OK(err, "TryAcquire of a free lock")
	t.release(lease)

	reader := t.acquire(a.RWMutex("rw").Reader())
	writer := t.queued(a, 1, b.RWMutex("rw").Writer())
	t.Is(suite.Err(t.client().RWMutex("rw").Reader().TryAcquire(t.Ctx)), interlock.ErrBusy, "TryAcquire of a reader behind a writer that waits")
	t.waiting(a, "rw", 1)
	t.passOn(reader, writer, "the writer is served")
})
