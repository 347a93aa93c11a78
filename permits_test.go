package interlock_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Who waits for more permits than are set leaves, is told so, and keeps nobody out.
func TestAWaiterForMorePermitsThanAreSet(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, weighs(a, 2))
		heavy := async(ctx, weighs(b, 24))
		light := async(ctx, weighs(b, 1))
		ok(t, a.Admin().SetPermits(ctx, "s", 3))
		first := now(t, light, "who fits is kept out")
		r := <-heavy // it has tried once more
		wantErr(t, r.err, interlock.ErrMismatch)
		failIf(t, !strings.Contains(r.err.Error(), "set to 3, and 24 are wanted"), "%v", r.err)
		first.release(t)
		ok(t, a.Admin().UnsetPermits(ctx, "s"))
		ok(t, lease.Release())
	}))
}

// An answer that is lost changes nothing about what is set, and nothing about who holds.
func TestSetPermitsWithLostReplies(t *testing.T) {
	for side, at := range sides {
		simulatedAs(t, side, both(func(t *testing.T, a, b member) {
			lease := acquire(t, a.Semaphore("s", 1))
			next := async(ctx, b.Semaphore("s", 1))
			at(a.faults(), "Resize", 2).Fail()
			ok(t, a.Admin().SetPermits(ctx, "s", 2))
			r := now(t, next, "who fits is not served")

			// The answer of a Join is lost, and the number is another one when it is repeated.
			b.faults().After("Join", 1).Fail()
			ok(t, lease.Release())
			third := async(ctx, b.Semaphore("s", 2))
			ok(t, a.Admin().SetPermits(ctx, "s", 5))
			got3 := served(t, third)
			q := errtest.Must(a.Admin().Queue(ctx, "s"))(t)
			failIf(t, len(q.Holders) != 2 || len(q.Waiters) != 0, "two hold, and it shows %+v", q)
			ok(t, got3.lease.Release())
			ok(t, r.lease.Release())
			ok(t, a.Admin().UnsetPermits(ctx, "s"))
		}))
	}
}

// A program whose own number is set, or counts again since none is set any more, just after another one was in its way,
// is served by its own, whatever it has asked for in between, and though others have come who say the same.
func TestTheOwnNumberIsSetInBetween(t *testing.T) {
	for how, c := range map[string]struct {
		method string
		call   int
		other  bool
		change func(member) error
	}{
		"set":                        {"Follow", 1, false, func(m member) error { return m.Admin().SetPermits(ctx, "s", 5) }},
		"unset":                      {"Follow", 1, false, func(m member) error { return m.Admin().UnsetPermits(ctx, "s") }},
		"used again":                 {"Follow", 1, true, func(m member) error { return m.Admin().UnsetPermits(ctx, "s") }},
		"used again before the Join": {"Join", 2, true, func(m member) error { return m.Admin().UnsetPermits(ctx, "s") }},
	} {
		for _, try := range []bool{false, true} {
			simulatedAs(t, how, both(func(t *testing.T, a, b member) {
				ok(t, a.Admin().SetPermits(ctx, "s", 3))
				late := b.faults().Before(c.method, c.call).Hang()
				get := b.Semaphore("s", 5).Acquire
				if try {
					get = b.Semaphore("s", 5).TryAcquire
				}
				done := begun(ctx, get)
				ok(t, c.change(a))
				if c.other {
					defer acquire(t, a.Semaphore("s", 5)).Release()
				}
				late.Deliver()
				turn(t, done)
				ok(t, a.Admin().UnsetPermits(ctx, "s"))
			}))
		}
	}
}

// A refusal that lasts, and that the queue does not explain, is an error soon: a number was set at members of a quorum,
// which shows none.
func TestAMismatchThatNothingExplains(t *testing.T) {
	simulated(t, func(t *testing.T) {
		clients, _ := members(t, []*memlock.World{memlock.NewWorld(), memlock.NewWorld(), memlock.NewWorld()})
		q := quorum(t, clients...)
		time.Sleep(11 * time.Second) // they are new
		for _, c := range clients {
			ok(t, c.Admin().SetPermits(ctx, "s", 5))
		}
		patient := lasting(t, time.Minute)
		wantErr(t, errOf(q.Semaphore("s", 1).Acquire(patient)), interlock.ErrMismatch)
		ok(t, patient.Err())
		ok(t, q.Close())
	})
}

// While the number changes all the time, no more hold than the largest number allows, all are
// served, and whoever says another number works on.
func TestPermitsThatChangeAllTheTime(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		members := []member{join(t, w), join(t, w), join(t, w)}
		ok(t, members[0].Admin().SetPermits(ctx, "s", 3))
		var mu sync.Mutex
		used, most := 0, 0
		var work sync.WaitGroup
		for i := range 30 {
			s := members[i%3].Semaphore("s", int64(1+i%4))
			work.Go(func() {
				for range 10 {
					if err := s.Do(ctx, func(context.Context) error {
						mu.Lock()
						used++
						most = max(most, used)
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						mu.Lock()
						used--
						mu.Unlock()
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		changing, stop := context.WithCancel(ctx)
		var changes sync.WaitGroup
		changes.Go(func() {
			for n := int64(0); changing.Err() == nil; n++ {
				errtest.Is(t, members[n%3].Admin().SetPermits(ctx, "s", 1+n%6), nil)
				time.Sleep(7 * time.Millisecond)
			}
		})
		work.Wait()
		stop()
		changes.Wait()
		failIf(t, most > 6, "%d hold, where six permits were set at most", most)
		ok(t, members[0].Admin().UnsetPermits(ctx, "s"))
		nothingLeft(t, members...)
	})
}

// Who says the number that is set pays nothing for that, and who says another pays two exchanges.
func TestWhatAnotherNumberCosts(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		ok(t, a.Admin().SetPermits(ctx, "s", 3))
		for permits, want := range map[int64]uint64{3: 2, 5: 4} {
			before := a.Admin().Exchanges()
			ok(t, acquire(t, a.Semaphore("s", permits)).Release())
			equal(t, a.Admin().Exchanges()-before, want, "exchanges of an acquire and a release by a program that says %d", permits)
		}
	}))
}

// Another kind of lock is refused, also while nobody uses the name, and the error says what it is.
func TestAMutexWherePermitsAreSet(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		ok(t, a.Admin().SetPermits(ctx, "s", 3))
		err := errOf(a.Mutex("s").TryAcquire(ctx))
		wantErr(t, err, interlock.ErrMismatch)
		errtest.Says(t, err, "this is a mutex, and by SetPermits it is a semaphore with 3 permits")
		ok(t, a.Admin().UnsetPermits(ctx, "s"))
		ok(t, acquire(t, a.Mutex("s")).Release())
	}))
}

// A context that holds permits is not told of a deadlock while there are enough by the number that it works with.
func TestDeadlockGoesByTheNumberThatIsSet(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		ok(t, a.Admin().SetPermits(ctx, "s", 3))
		lease := acquire(t, a.Semaphore("s", 2, interlock.Weight(2)))
		held := bind(t, lease)
		third := errtest.Must(a.Semaphore("s", 2).TryAcquire(held))(t)
		wantErr(t, errOf(a.Semaphore("s", 2, interlock.Weight(2)).TryAcquire(held)), interlock.ErrDeadlock)
		ok(t, third.Release())
		ok(t, lease.Release())
	}))
}

// Users of one name must agree on what it is; nobody waits for a disagreement.
func TestMismatch(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, a.Semaphore("s", 2))
		for want, l := range map[string]*interlock.Lock{
			"a semaphore with 3 permits": b.Semaphore("s", 3), "a mutex": b.Mutex("s"), "a read-write lock": b.RWMutex("s").Reader(),
		} {
			wantErr(t, errOf(l.Acquire(ctx)), interlock.ErrMismatch)
			err := errOf(l.TryAcquire(ctx))
			wantErr(t, err, interlock.ErrMismatch)
			says := "^interlock: acquire s: other kind or capacity: this is " + want + ", and for \\S+ it is a semaphore with 2 permits$"
			failIf(t, !regexp.MustCompile(says).MatchString(err.Error()), "it says %q", err)
		}
		ok(t, lease.Release())
		ok(t, acquire(t, b.Mutex("s")).Release()) // an empty queue forgets
	}))
}

// weighs is a semaphore of 25 permits, of which so many are wanted.
func weighs(m member, n int64, opts ...interlock.Option) *interlock.Lock {
	return m.Semaphore("s", 25, append(opts, interlock.Weight(n))...)
}

// When it is not known whether a part was given back, it counts as given back, also if the context had ended before and
// the backend is not asked; calling KeepPermits again settles it.
func TestAnAmbiguousKeepPermitsHasCounted(t *testing.T) {
	for name, fail := range map[string]func(*memlock.Faults){
		"before": func(f *memlock.Faults) { f.Before("Shrink", 0).Fail() },
		"after":  func(f *memlock.Faults) { f.After("Shrink", 0).Fail() },
		"over":   nil,
	} {
		simulatedAs(t, name, both(func(t *testing.T, a, b member) {
			lease := acquire(t, weighs(a, 25))
			held := bind(t, lease)
			short, end := context.WithTimeout(ctx, time.Second)
			defer end()
			want := context.DeadlineExceeded
			if fail == nil {
				want = context.Canceled
				end()
			} else {
				fail(a.faults())
			}
			wantErr(t, lease.KeepPermits(short, 13), want)
			failIf(t, lease.Permits() != 13 || lease.Err() != nil || lease.Exclusive(), "%d permits, %v", lease.Permits(), lease.Err())
			wantErr(t, errOf(weighs(a, 13).TryAcquire(held)), interlock.ErrDeadlock)
			wantErr(t, lease.KeepPermits(ctx, 14), interlock.ErrInvalid)
			if name != "after" {
				wantErr(t, errOf(weighs(b, 1).TryAcquire(ctx)), interlock.ErrBusy)
			}
			a.faults().Clear()
			ok(t, lease.KeepPermits(ctx, 13)) // again, until it is confirmed
			before := a.Admin().Exchanges()
			ok(t, lease.KeepPermits(ctx, 13)) // what is confirmed is not asked for again
			costs(t, a, before, 0)
			ok(t, errtest.Must(weighs(b, 12).TryAcquire(ctx))(t).Release())
			ok(t, lease.Release())
		}))
	}
}

// Permits that their holder has acquired again stay, and so do those of other sessions.
func TestKeepPermitsIsRefused(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		outer := acquire(t, weighs(a, 23))
		held := bind(t, outer)
		inner := errtest.Must(weighs(a, 20, interlock.Reentrant()).Acquire(held))(t)
		wantErr(t, outer.KeepPermits(ctx, 13), interlock.ErrInvalid)
		wantErr(t, inner.KeepPermits(ctx, 13), interlock.ErrInvalid)
		failIf(t, outer.Permits() != 23 || inner.Permits() != 23, "%d and %d permits", outer.Permits(), inner.Permits())
		ok(t, inner.Release())
		ok(t, outer.KeepPermits(ctx, 13))
		ok(t, outer.Release())
		wantErr(t, outer.KeepPermits(ctx, 1), interlock.ErrReleased)

		fixed := acquire(t, weighs(a, 5, interlock.ExpiresAfter(time.Minute)))
		wantErr(t, errtest.Must(b.Adopt(ctx, "s", fixed.ID()))(t).KeepPermits(ctx, 1), interlock.ErrInvalid)
		ok(t, fixed.KeepPermits(ctx, 1))
		ok(t, errtest.Must(weighs(b, 24).TryAcquire(ctx))(t).Release())
		ok(t, fixed.Release())

		for name, l := range map[string]*interlock.Lock{
			"mutex": a.Mutex("m"), "writer": a.RWMutex("m").Writer(), "candidate": a.Election("m").Candidate(""),
		} {
			lease := acquire(t, l)
			wantErr(t, lease.KeepPermits(ctx, 1), interlock.ErrInvalid)
			equal(t, lease.Permits(), 0, "permits of the lease of a %s", name)
			ok(t, lease.Release())
		}
		nothingLeft(t, a)
	})
}

// A lease that keeps a part is renewed, and lost like any other; one that is lost during KeepPermits says so.
func TestKeepPermitsOfALeaseThatIsLost(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, weighs(a, 25))
		ok(t, lease.KeepPermits(ctx, 24))
		time.Sleep(3 * ttl)
		ok(t, lease.Err())
		evict(t, b, "s", true)
		wantErr(t, lease.KeepPermits(ctx, 1), interlock.ErrLost)
		wantErr(t, lease.Err(), interlock.ErrLost)
		wantErr(t, lease.Release(), interlock.ErrLost)

		cut := acquire(t, weighs(a, 25))
		a.faults().Before("", 0).Fail()
		short := lasting(t, 2*ttl)
		wantErr(t, cut.KeepPermits(short, 24), interlock.ErrLost) // at its deadline, not at the end of ctx
		failIf(t, short.Err() != nil, "it has waited for the context")
		a.faults().Clear()
		time.Sleep(2 * ttl)
	}))
}

// The lease of All keeps no permits, but its parts do; then it is found where what is left is enough.
func TestThePartsOfAllKeepPermits(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lock := interlock.All(weighs(a, 20), a.Mutex("m"))
		lease := acquire(t, lock)
		held := bind(t, lease)
		wantErr(t, lease.KeepPermits(ctx, 13), interlock.ErrInvalid)
		ok(t, lease.Parts()[0].KeepPermits(ctx, 13))
		ok(t, lease.Err())
		holds(t, lock, held, false)
		holds(t, interlock.All(weighs(a, 13), a.Mutex("m")), held, true)
		ok(t, errtest.Must(weighs(b, 12).TryAcquire(ctx))(t).Release())
		ok(t, lease.Release())
	}))
}

// Calls for one lease at the same time leave the smallest number.
func TestKeepPermitsAtTheSameTime(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, weighs(a, 25))
		for n := range int64(10) {
			go func() { _ = lease.KeepPermits(ctx, 10+n) }()
		}
		synctest.Wait()
		q := errtest.Must(a.Admin().Queue(ctx, "s"))(t)
		failIf(t, lease.Permits() != 10 || q.Holders[0].Units != 10, "%d permits here, %d there", lease.Permits(), q.Holders[0].Units)
		ok(t, lease.Release())
	}))
}

// A client has the leases of a name in the order of their grants, whatever the kind, until each is over.
func TestHeldByTheClient(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		whole := acquire(t, interlock.All(weighs(a, 1), a.Mutex("m", interlock.Sticky())))
		time.Sleep(time.Second)
		two := acquire(t, weighs(a, 2))
		failIf(t, !slices.Equal(a.Leases("s"), []*interlock.Lease{whole.Parts()[0], two}), "%v", a.Leases("s"))
		equal(t, len(a.Leases("m")), 1, "leases")
		equal(t, len(b.Leases("m")), 0, "leases of the other client")
		ok(t, whole.Release())
		if n := len(a.Leases("m")); n != 0 { // Sticky keeps the ticket
			t.Errorf("%d after the release", n)
		}
		before := a.Admin().Exchanges()
		a.faults().Before("", 0).Fail()
		failIf(t, !slices.Equal(a.Leases("s"), []*interlock.Lease{two}), "%v", a.Leases("s"))
		costs(t, a, before, 0)
		time.Sleep(2 * ttl)
		equal(t, len(a.Leases("s")), 0, "leases after its deadline")
		wantErr(t, two.Release(), interlock.ErrLost)
		a.faults().Clear()
	}))
}
