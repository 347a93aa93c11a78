package interlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// weighs is a semaphore of 25 permits, of which so many are wanted.
func weighs(m member, n int64, opts ...interlock.Option) *interlock.Lock {
	return m.Semaphore("s", 25, append(opts, interlock.Weight(n))...)
}

// When it is not known whether a part was given back, it counts as given back; calling Shrink
// again settles it.
func TestAnAmbiguousShrinkHasCounted(t *testing.T) {
	for _, after := range []bool{true, false} {
		simulated(t, both(func(t *testing.T, a, b member) {
			lease := acquire(t, weighs(a, 23))
			held, cancel := lease.Bind(ctx)
			defer cancel()
			if after {
				a.faults().After("Shrink", 0).Fail()
			} else {
				a.faults().Before("Shrink", 0).Fail()
			}
			short, end := context.WithTimeout(ctx, time.Second)
			defer end()
			wantErr(t, lease.Shrink(short, 13), context.DeadlineExceeded)
			if lease.Permits() != 13 || lease.Err() != nil {
				t.Errorf("%d permits, %v", lease.Permits(), lease.Err())
			}
			wantErr(t, errOf(weighs(a, 13).TryAcquire(held)), interlock.ErrDeadlock)
			wantErr(t, lease.Shrink(ctx, 14), interlock.ErrInvalid)
			a.faults().Clear()
			ok(t, lease.Shrink(ctx, 13)) // again, until it is confirmed
			ok(t, errtest.Must(weighs(b, 12).TryAcquire(ctx))(t).Release())
			ok(t, lease.Release())
		}))
	}
}

// With a context that has ended, the lease has fewer permits all the same, and the backend is not asked.
func TestAShrinkWithAContextThatHasEnded(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, weighs(a, 25))
		over, end := context.WithCancel(ctx)
		end()
		wantErr(t, lease.Shrink(over, 1), context.Canceled)
		if lease.Permits() != 1 || lease.Exclusive() {
			t.Errorf("%d permits, exclusive: %v", lease.Permits(), lease.Exclusive())
		}
		wantErr(t, errOf(weighs(b, 1).TryAcquire(ctx)), interlock.ErrBusy)
		ok(t, lease.Shrink(ctx, 1))
		ok(t, acquire(t, weighs(b, 24)).Release())
		ok(t, lease.Release())
	}))
}

// Permits that their holder has acquired again stay, and so do those of other sessions.
func TestShrinkIsRefused(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		outer := acquire(t, weighs(a, 23))
		held, cancel := outer.Bind(ctx)
		defer cancel()
		inner := errtest.Must(weighs(a, 20, interlock.Reentrant()).Acquire(held))(t)
		wantErr(t, outer.Shrink(ctx, 13), interlock.ErrInvalid)
		wantErr(t, inner.Shrink(ctx, 13), interlock.ErrInvalid)
		if outer.Permits() != 23 || inner.Permits() != 23 {
			t.Errorf("%d and %d permits", outer.Permits(), inner.Permits())
		}
		ok(t, inner.Release())
		ok(t, outer.Shrink(ctx, 13))
		ok(t, outer.Release())
		wantErr(t, outer.Shrink(ctx, 1), interlock.ErrReleased)

		fixed := acquire(t, weighs(a, 5, interlock.Hold(time.Minute)))
		adopted := errtest.Must(b.Adopt(ctx, "s", fixed.ID()))(t)
		wantErr(t, adopted.Shrink(ctx, 1), interlock.ErrInvalid)
		ok(t, fixed.Shrink(ctx, 1))
		ok(t, errtest.Must(weighs(b, 24).TryAcquire(ctx))(t).Release())
		ok(t, fixed.Release())

		for name, l := range map[string]*interlock.Lock{
			"mutex": a.Mutex("m"), "writer": a.RWMutex("m").Writer(), "candidate": a.Election("m").Candidate(""),
		} {
			lease := acquire(t, l)
			wantErr(t, lease.Shrink(ctx, 1), interlock.ErrInvalid)
			if n := lease.Permits(); n != 0 {
				t.Errorf("the lease of a %s has %d permits", name, n)
			}
			ok(t, lease.Release())
		}
		nothingLeft(t, a)
	})
}

// A lease that was shrunk is renewed, and lost like any other; one that is lost while it is shrunk says so.
func TestShrinkOfALeaseThatIsLost(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, weighs(a, 25))
		ok(t, lease.Shrink(ctx, 24))
		time.Sleep(3 * ttl)
		ok(t, lease.Err())
		member := errtest.Must(b.Admin().Queue(ctx, "s"))(t)
		ok(t, b.Admin().Evict(ctx, "s", member.Holders[0].ID, true))
		wantErr(t, lease.Shrink(ctx, 1), interlock.ErrLost)
		wantErr(t, lease.Err(), interlock.ErrLost)
		wantErr(t, lease.Release(), interlock.ErrLost)

		cut := acquire(t, weighs(a, 25))
		a.faults().Before("", 0).Fail()
		short, end := context.WithTimeout(ctx, 2*ttl)
		defer end()
		wantErr(t, cut.Shrink(short, 24), interlock.ErrLost) // at its deadline, not at the end of ctx
		if short.Err() != nil {
			t.Error("it has waited for the context")
		}
		a.faults().Clear()
		time.Sleep(2 * ttl)
	}))
}

// The lease of All is not shrunk, but its parts are; then it is found where what is left is enough.
func TestThePartsOfAllAreShrunk(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lock := interlock.All(weighs(a, 20), a.Mutex("m"))
		lease := acquire(t, lock)
		held, cancel := lease.Bind(ctx)
		defer cancel()
		wantErr(t, lease.Shrink(ctx, 13), interlock.ErrInvalid)
		part := lease.Parts()[0]
		ok(t, part.Shrink(ctx, 13))
		ok(t, lease.Err())
		if _, found := lock.Held(held); found {
			t.Error("a lease of 13 permits is found for 20")
		}
		if _, found := interlock.All(weighs(a, 13), a.Mutex("m")).Held(held); !found {
			t.Error("a lease of 13 permits is not found for 13")
		}
		ok(t, errtest.Must(weighs(b, 12).TryAcquire(ctx))(t).Release())
		ok(t, lease.Release())
	}))
}

// Shrinks of one lease at the same time leave the smallest number.
func TestShrinksAtTheSameTime(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, weighs(a, 25))
		for n := range int64(10) {
			go func() { _ = lease.Shrink(ctx, 10+n) }()
		}
		synctest.Wait()
		q := errtest.Must(a.Admin().Queue(ctx, "s"))(t)
		if lease.Permits() != 10 || q.Holders[0].Units != 10 {
			t.Errorf("%d permits here, %d there", lease.Permits(), q.Holders[0].Units)
		}
		ok(t, lease.Release())
	}))
}

// A client has the leases of a name in the order of their grants, whatever the kind, until each is over.
func TestHeldByTheClient(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		whole := acquire(t, interlock.All(weighs(a, 1), a.Mutex("m", interlock.Sticky())))
		time.Sleep(time.Second)
		two := acquire(t, weighs(a, 2))
		if got := a.Held("s"); len(got) != 2 || got[0] != whole.Parts()[0] || got[1] != two {
			t.Errorf("%v", got)
		}
		if n, other := len(a.Held("m")), len(b.Held("m")); n != 1 || other != 0 {
			t.Errorf("%d, and of the other client %d", n, other)
		}
		ok(t, whole.Release())
		if n := len(a.Held("m")); n != 0 { // Sticky keeps the ticket
			t.Errorf("%d after the release", n)
		}
		before := a.Admin().Exchanges()
		a.faults().Before("", 0).Fail()
		if got := a.Held("s"); len(got) != 1 || got[0] != two || a.Admin().Exchanges() != before {
			t.Errorf("%v, with %d exchanges", got, a.Admin().Exchanges()-before)
		}
		time.Sleep(2 * ttl)
		if n := len(a.Held("s")); n != 0 {
			t.Errorf("%d after its deadline", n)
		}
		wantErr(t, two.Release(), interlock.ErrLost)
		a.faults().Clear()
	}))
}
