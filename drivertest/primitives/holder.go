package primitives

import (
	"context"
	"errors"

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
		t.Helper()
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
