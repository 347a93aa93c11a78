package interlock_test

import (
	"context"
	"errors"
	"fmt"
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

// busy asserts that a lock is held, or is not.
func busy(t testing.TB, l *interlock.Lock, want bool) {
	t.Helper()
	lease, err := l.TryAcquire(ctx)
	if err == nil {
		ok(t, lease.Release())
	} else if !errors.Is(err, interlock.ErrBusy) {
		t.Fatal(err)
	}
	fatalIf(t, (err != nil) != want, "%s: %v, want busy: %v", l.Name(), err, want)
}

func TestAllHoldsEachPartUntilRelease(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		all := interlock.All(b.Semaphore("permits", 3, interlock.Weight(2)), a.RWMutex("rw").Writer(),
			a.Striped("striped", 8).For("key"), b.Mutex("m"), a.Election("e").Candidate("me"))
		lease := acquire(t, all)
		others := []*interlock.Lock{
			otherB.Semaphore("permits", 3, interlock.Weight(2)), otherA.RWMutex("rw").Reader(),
			otherA.Striped("striped", 8).For("key"), otherB.Mutex("m"), otherA.Election("e").Candidate("other"),
		}
		for i, l := range others {
			busy(t, l, true)
			part := lease.Parts()[i]
			equal(t, part.Name(), l.Name(), "the name of part %d", i)
			failIf(t, part.Token() == 0 || part.Err() != nil, "part %d has the token %d, and %v", i, part.Token(), part.Err())
		}
		equal(t, lease.Name(), all.Name(), "its name")
		failIf(t, lease.Token() != 0 || lease.ID() != "" || lease.Exclusive(), "%d, %q, %v", lease.Token(), lease.ID(), lease.Exclusive())
		time.Sleep(5 * ttl) // all are renewed
		ok(t, lease.Err())
		ok(t, lease.Release())
		wantErr(t, lease.Err(), interlock.ErrReleased)
		ok(t, lease.Release())
		failIf(t, !ended(lease.Done()) || lease.Remaining() != 0, "it is not over")
		nothingLeft(t, a, b)
		for _, l := range others {
			busy(t, l, false)
		}
	}))
}

func TestTheDeadlineOfAllIsTheEarliest(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld(), interlock.TTL(time.Minute))
		b := join(t, memlock.NewWorld(), interlock.TTL(3*time.Second))
		lease := acquire(t, interlock.All(a.Mutex("m"), b.Mutex("n")))
		part := lease.Parts()[1]
		failIf(t, !lease.Deadline().Equal(part.Deadline()) || lease.Remaining() != part.Remaining(), "%v, of its part %v", lease.Remaining(), part.Remaining())
		b.faults().Cut()
		time.Sleep(2 * time.Second)
		failIf(t, !lease.InDoubt(), "not in doubt")
		ok(t, lease.Err())
		time.Sleep(time.Second)
		wantErr(t, lease.Err(), interlock.ErrLost)
		b.faults().Heal()
		_ = lease.Release()
	})
}

func TestALockThatIsNamedTwiceCountsOnce(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, other member) {
		rw := a.RWMutex("rw")
		five := func(n int64) *interlock.Lock { return a.Semaphore("permits", 5, interlock.Weight(n)) }
		inner := interlock.All(a.Mutex("m"), five(1))
		lease := acquire(t, interlock.All(inner, a.Mutex("m"), rw.Reader(), rw.Writer(), five(3), rw.Reader()))
		var names []string
		for _, p := range lease.Parts() {
			names = append(names, p.Name())
		}
		failIf(t, !slices.Equal(names, []string{"m", "permits", "rw"}), "%v", names)
		busy(t, other.RWMutex("rw").Reader(), true)
		busy(t, other.Semaphore("permits", 5, interlock.Weight(2)), true)
		busy(t, other.Semaphore("permits", 5), false)
		ok(t, lease.Release())
	}))
}

func TestWhatAllCanNeverHaveFailsAtOnce(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, other member) {
		closed := join(t, memlock.NewWorld())
		ok(t, closed.Close())
		m := a.Mutex("m")
		held := acquire(t, a.Mutex("z"))
		inside := bind(t, held)
		waited := acquire(t, other.Mutex("a")) // whoever waited for it would wait for ever
		for name, c := range map[string]struct {
			lock *interlock.Lock
			want error
			says string
		}{
			"no locks":             {interlock.All(), interlock.ErrInvalid, "no locks"},
			"only All of none":     {interlock.All(interlock.All(), m), interlock.ErrInvalid, "no locks"},
			"nil":                  {interlock.All(m, nil), interlock.ErrInvalid, "nil"},
			"too many permits":     {interlock.All(a.Semaphore("s", 3, interlock.Weight(2)), a.Semaphore("s", 3, interlock.Weight(2))), interlock.ErrInvalid, "s: "},
			"two kinds":            {interlock.All(a.Mutex("a"), a.Mutex("s"), a.Semaphore("s", 3)), interlock.ErrMismatch, "s: "},
			"two capacities":       {interlock.All(a.Semaphore("s", 4), a.Semaphore("s", 3)), interlock.ErrMismatch, "4 permits"},
			"a wrong part":         {interlock.All(a.Mutex("a"), a.Mutex("{")), interlock.ErrInvalid, "{: "},
			"a wrong option":       {interlock.All(a.Mutex("a"), m).With(interlock.ExpiresAfter(-1)), interlock.ErrInvalid, "ExpiresAfter"},
			"an option of others":  {interlock.All(a.Mutex("a"), m).With(interlock.Weight(2)), interlock.ErrInvalid, "permits"},
			"a closed client":      {interlock.All(a.Mutex("a"), closed.Mutex("m")), interlock.ErrClosed, "m: "},
			"held by this context": {interlock.All(a.Mutex("a"), a.Mutex("z")), interlock.ErrDeadlock, "z: "},
		} {
			lease, err := c.lock.With(interlock.Wait(time.Hour)).Acquire(inside)
			failIf(t, lease != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says), "%s: %v, %v", name, lease, err)
		}
		ok(t, waited.Release())
		ok(t, held.Release())
	}))
}

// Two clients of one backend: whoever holds a lock by one of them would wait for itself by the other.
func TestOneLockThatTwoClientsReachIsRefused(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		for _, l := range []*interlock.Lock{
			interlock.All(a.Mutex("m"), b.Mutex("m")),
			interlock.All(a.RWMutex("rw").Reader(), b.RWMutex("rw").Writer()),
			interlock.All(a.Semaphore("s", 3, interlock.Weight(2)), b.Semaphore("s", 3, interlock.Weight(2))),
		} {
			wantErr(t, errOf(l.TryAcquire(ctx)), interlock.ErrInvalid)
			wantErr(t, errOf(l.Acquire(ctx)), interlock.ErrInvalid)
			nothingLeft(t, a, b)
		}
		lease := acquire(t, interlock.All(a.Semaphore("s", 3), b.Semaphore("s", 3), a.RWMutex("rw").Reader(), b.RWMutex("rw").Reader()))
		ok(t, lease.Release())
	}))
}

// Each backend takes a second to answer.
func TestLocksThatAreFreeAreAcquiredAtTheSameTime(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, _, _ member) {
		for try, acquire := range map[bool]func(*interlock.Lock) (*interlock.Lease, error){
			true:  func(l *interlock.Lock) (*interlock.Lease, error) { return l.TryAcquire(ctx) },
			false: func(l *interlock.Lock) (*interlock.Lease, error) { return l.Acquire(ctx) },
		} {
			hung := []*memlock.Hung{a.faults().Before("Join", 1).Hang(), a.faults().Before("Join", 2).Hang(), b.faults().Before("Join", 1).Hang()}
			for _, h := range hung {
				go func() {
					<-h.Reached()
					time.Sleep(time.Second)
					h.Deliver()
				}()
			}
			began := time.Now()
			lease := errtest.Must(acquire(interlock.All(a.Mutex("k"), b.Mutex("l"), a.Mutex("m"))))(t)
			equal(t, time.Since(began), time.Second, "try %v: it took", try)
			ok(t, lease.Release())
		}
	}))
}

// What comes after it is given back meanwhile, what comes before it is kept.
func TestNothingIsHeldBehindAPartThatIsWaitedFor(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		held := acquire(t, otherB.Mutex("l"))
		c := async(ctx, interlock.All(a.Mutex("k"), b.Mutex("l"), a.Mutex("m"), b.Mutex("n")))
		time.Sleep(time.Second)
		busy(t, otherA.Mutex("k"), true)
		busy(t, otherA.Mutex("m"), false)
		busy(t, otherB.Mutex("n"), false)
		ok(t, held.Release())
		time.Sleep(time.Second)
		now(t, c, "it still waits").release(t)
	}))
}

// While a lock of one name is held on one backend, that on another backend is not waited for.
func TestNobodyWaitsForALockThatHoldsAnotherOfItsName(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		first := acquire(t, otherB.Mutex("m"))
		c := async(ctx, interlock.All(a.Mutex("m"), b.Mutex("m")))
		for range 3 {
			time.Sleep(10 * time.Second)
			notYet(t, c, "it has both")
			busy(t, otherA.Mutex("m"), false) // while it waits for the other
		}
		ok(t, first.Release())
		time.Sleep(time.Second)
		now(t, c, "it still waits").release(t)
	}))
}

func TestATryOfAllKeepsNothingIfOnePartIsBusy(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		names := []string{"k", "l", "m"}
		for i := range names {
			held := acquire(t, []member{otherA, otherB, otherA}[i].Mutex(names[i]))
			all := interlock.All(a.Mutex("m"), b.Mutex("l"), a.Mutex("k")).With(interlock.AtLeast(time.Hour))
			err := errOf(all.TryAcquire(ctx))
			wantErr(t, err, interlock.ErrBusy)
			errtest.Says(t, err, names[i]+": busy")
			began := time.Now()
			wantErr(t, errOf(all.With(interlock.Wait(7*time.Second)).Acquire(ctx)), interlock.ErrBusy)
			took(t, time.Since(began), 7*time.Second, 8*time.Second, "Wait(7s) took")
			short, cancel := context.WithTimeout(ctx, time.Second)
			_, err = all.Acquire(short)
			cancel()
			wantErr(t, err, context.DeadlineExceeded)
			ok(t, held.Release())
			nothingLeft(t, a, b)
		}
	}))
}

func TestTheWaitOfANestedAllBoundsTheWhole(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, other member) {
		held := acquire(t, other.Mutex("z"))
		defer held.Release()
		began := time.Now()
		inner := interlock.All(a.Mutex("m")).With(interlock.Wait(3 * time.Second))
		wantErr(t, errOf(interlock.All(inner, a.Mutex("z", interlock.Wait(time.Hour))).Acquire(ctx)), interlock.ErrBusy)
		_, err := interlock.All(a.Mutex("m"), a.Mutex("z", interlock.Wait(2*time.Second))).With(interlock.Wait(time.Hour)).Acquire(ctx)
		wantErr(t, err, interlock.ErrBusy)
		took(t, time.Since(began), 5*time.Second, 6*time.Second, "3 s and 2 s took")
	}))
}

// Whichever part is lost, and however: the context ends first, the error names the part, and the others
// are free when the holder has released it, not before.
func TestThatOnePartIsLostEndsTheWhole(t *testing.T) {
	for how, lose := range map[string]func(t *testing.T, m, other member, name string, lease *interlock.Lease){
		"evicted": func(t *testing.T, m, other member, name string, lease *interlock.Lease) {
			ok(t, other.Admin().Evict(ctx, name, lease.ID(), true))
		},
		"expired": func(t *testing.T, m, other member, name string, lease *interlock.Lease) { m.faults().Expire() },
		"cut off": func(t *testing.T, m, other member, name string, lease *interlock.Lease) {
			m.faults().Cut()
			time.Sleep(ttl)
		},
		"released alone": func(t *testing.T, m, other member, name string, lease *interlock.Lease) { ok(t, lease.Release()) },
	} {
		for i := range 3 {
			for _, releases := range []bool{true, false} {
				simulatedAs(t, fmt.Sprint(how, " ", i, " ", releases), func(t *testing.T) {
					var ms, others []member
					var locks []*interlock.Lock
					for j := range 3 {
						m, other := pair(t)
						ms, others = append(ms, m), append(others, other)
						locks = append(locks, m.Mutex(fmt.Sprint("lock", j)))
					}
					name := fmt.Sprint("lock", i)
					lease := acquire(t, interlock.All(locks[2], locks[0], locks[1]))
					bound, free := lease.Bind(ctx)
					defer free()
					lose(t, ms[i], others[i], name, lease.Parts()[(i+1)%3])
					time.Sleep(ttl / 2)
					wantErr(t, lease.Err(), interlock.ErrLost)
					wantErr(t, context.Cause(bound), interlock.ErrLost)
					failIf(t, !strings.Contains(lease.Err().Error(), name) || !ended(lease.Done()), "%v", lease.Err())
					for j := range 3 {
						if j != i {
							busy(t, others[j].Mutex(fmt.Sprint("lock", j)), true)
						}
					}
					ms[i].faults().Heal()
					if releases {
						wantErr(t, lease.Release(), interlock.ErrLost)
					} else {
						time.Sleep(ttl)
						time.Sleep(time.Second)
						for j, m := range ms { // the parts that were given up, too
							n := m.Overruns()
							failIf(t, (n == 1) == (how == "released alone" && i == j), "part %d: %d leases overrun", j, n)
						}
						free()
					}
					time.Sleep(time.Second)
					nothingLeft(t, append(ms, others...)...)
					wantErr(t, lease.Release(), interlock.ErrLost)
				})
			}
		}
	}
}

func TestAPartThatIsLostWhileOthersAreWaitedForIsAcquiredAgain(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		held := acquire(t, otherB.Mutex("z"))
		c := async(ctx, interlock.All(b.Mutex("z"), a.Mutex("m")))
		for range 3 {
			time.Sleep(time.Second)
			busy(t, otherA.Mutex("m"), true)
			a.faults().Expire()
			time.Sleep(ttl)
		}
		busy(t, otherA.Mutex("m"), true)
		ok(t, held.Release())
		time.Sleep(time.Second)
		r := now(t, c, "it still waits")
		for _, p := range r.lease.Parts() {
			ok(t, p.Err())
		}
		ok(t, r.lease.Release())
	}))
}

// What a part was told of the last holder is for the next one to hear.
func TestAnAcquireOfAllThatFailsKeepsNoNewsOfADeath(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		robust := interlock.ReportDeath()
		acquire(t, otherA.Mutex("m", robust))
		otherA.faults().Expire()
		held := acquire(t, otherB.Mutex("z"))
		all := interlock.All(a.Mutex("m"), b.Mutex("z")).With(robust)
		wantErr(t, errOf(all.With(interlock.Wait(2*ttl)).Acquire(ctx)), interlock.ErrBusy)
		ok(t, held.Release())
		lease := acquire(t, all)
		failIf(t, !lease.Inherited() || !lease.Parts()[0].Inherited() || lease.Parts()[1].Inherited(), "the death was not told")
		ok(t, lease.Release())
		inherited(t, async(ctx, all), false)
	}))
}

// The work under a part was interrupted, though the part itself was not lost. It is told whether the holder releases
// the rest, or works on until that is given up.
func TestTheRestOfALostWholeIsInherited(t *testing.T) {
	for _, releases := range []bool{true, false} {
		simulated(t, two(func(t *testing.T, a, b, _, otherB member) {
			robust := interlock.ReportDeath()
			lease := acquire(t, interlock.All(a.Mutex("m"), b.Mutex("n")).With(robust))
			a.faults().Expire()
			time.Sleep(ttl / 2)
			if releases {
				wantErr(t, lease.Release(), interlock.ErrLost)
			}
			inherited(t, async(ctx, otherB.Mutex("n", robust)), true)
			wantErr(t, lease.Release(), interlock.ErrLost)
		}))
	}
}

func TestAPanicUnderAllReleasesEachPart(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		all := interlock.All(a.Mutex("m"), b.Mutex("n")).With(interlock.ReportDeath())
		func() {
			defer func() { _ = recover() }()
			_ = all.Do(ctx, func(context.Context) error { panic("work") })
		}()
		nothingLeft(t, a, b)
		next := acquire(t, interlock.All(otherA.Mutex("m"), otherB.Mutex("n")).With(interlock.ReportDeath()))
		for _, p := range next.Parts() {
			failIf(t, !p.Inherited(), "%s: nobody was told", p.Name())
		}
		ok(t, next.Release())
	}))
}

func TestTheContextOfAllHoldsEachPart(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, _ member) {
		m, n, rw := a.Mutex("m"), b.Mutex("n"), a.RWMutex("rw")
		all := interlock.All(n, m, rw.Writer())
		ok(t, all.Do(ctx, func(ctx context.Context) error {
			whole := interlock.LeaseFrom(ctx)
			fatalIf(t, whole == nil || len(whole.Parts()) != 3, "the context carries another lease")
			for i, l := range []*interlock.Lock{n, m, rw.Writer()} {
				part, _ := l.Held(ctx)
				equal(t, part, whole.Parts()[i], "%s is held by", l.Name())
				wantErr(t, errOf(l.With(interlock.Wait(time.Hour)).Acquire(ctx)), interlock.ErrDeadlock)
			}
			for _, l := range []*interlock.Lock{all, interlock.All(m, n), interlock.All(rw.Reader())} {
				lease, _ := l.Held(ctx)
				equal(t, lease, whole, "%s is held by", l.Name())
			}
			for _, l := range []*interlock.Lock{interlock.All(m, a.Mutex("other")), interlock.All(otherA.Mutex("m"))} {
				holds(t, l, ctx, false)
			}
			nested := errtest.Must(interlock.All(m, n, a.Mutex("other")).With(interlock.Reentrant()).Acquire(ctx))(t)
			ok(t, nested.Release())
			ok(t, whole.Err())
			busy(t, otherA.Mutex("m"), true)
			return nil
		}))
		holds(t, all, ctx, false)
	}))
}

func TestAllIsRevokedWithAPart(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, _, otherB member) {
		lease := acquire(t, interlock.All(a.Mutex("m"), b.Mutex("n")))
		before := lease.Revoked()
		ok(t, otherB.Admin().Revoke(ctx, "n", lease.Parts()[1].ID()))
		synctest.Wait()
		failIf(t, !ended(before) || !ended(lease.Revoked()) || ended(lease.Parts()[0].Revoked()), "it is not revoked, or the other part is")
		ok(t, lease.Err())
		ok(t, lease.Release())
	}))
}

// A part that the context holds already may have been asked for before.
func TestAllIsRevokedOfAPartThatWasAskedForBefore(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, _ member) {
		held := acquire(t, a.Mutex("m", interlock.Reentrant()))
		ok(t, otherA.Admin().Revoke(ctx, "m", held.ID()))
		synctest.Wait()
		lease, err := interlock.All(a.Mutex("m", interlock.Reentrant()), b.Mutex("n")).Acquire(bind(t, held))
		ok(t, err)
		failIf(t, !ended(lease.Revoked()), "it is not revoked")
		failIf(t, !ended(lease.Parts()[0].Revoked()), "the part is not revoked")
		ok(t, lease.Release())
		ok(t, held.Release())
	}))
}

func TestAllOfFixedTimesIsExtendedAndAdoptedByParts(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		lease := acquire(t, interlock.All(a.Mutex("m"), b.Mutex("n")).With(interlock.ExpiresAfter(time.Minute)))
		ok(t, lease.Extend(ctx, time.Hour))
		time.Sleep(50 * time.Minute)
		ok(t, lease.Err())
		took(t, lease.Remaining(), 9*time.Minute, 10*time.Minute, "left are")
		ok(t, errtest.Must(otherB.Adopt(ctx, "n", lease.Parts()[1].ID()))(t).Release())
		time.Sleep(ttl)
		wantErr(t, lease.Err(), interlock.ErrLost)
		_ = lease.Release()
		nothingLeft(t, a, b, otherA, otherB)

		mixed := acquire(t, interlock.All(a.Mutex("m", interlock.ExpiresAfter(time.Minute)), b.Mutex("n")))
		err := mixed.Extend(ctx, time.Hour)
		wantErr(t, err, interlock.ErrInvalid)
		errtest.Says(t, err, "n: ")
		took(t, mixed.Parts()[0].Remaining(), 0, time.Minute, "left of the other part are")
		ok(t, mixed.Release())
	}))
}

func TestADowngradeOfAllIsOfItsReadWriteLocks(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		lease := acquire(t, interlock.All(a.RWMutex("rw").Writer(), b.Mutex("m")))
		ok(t, lease.Downgrade(ctx))
		busy(t, otherA.RWMutex("rw").Reader(), false)
		busy(t, otherA.RWMutex("rw").Writer(), true)
		busy(t, otherB.Mutex("m"), true)
		ok(t, lease.Release())
		lease = acquire(t, interlock.All(a.Mutex("n"), b.Mutex("m")))
		wantErr(t, lease.Downgrade(ctx), interlock.ErrInvalid)
		ok(t, lease.Release())
	}))
}

// Close of the client of one part: contexts end, Do's function is waited for, and then the rest is free.
func TestCloseOfOnePartsClientEndsTheWhole(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, otherA := pair(t)
		b, otherB := pair(t)
		all := interlock.All(a.Mutex("m"), b.Mutex("n"))
		closed := make(chan struct{})
		err := all.Do(ctx, func(ctx context.Context) error {
			go func() {
				defer close(closed)
				errtest.Is(t, a.Close(), nil)
			}()
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), interlock.ErrClosed)
			later := bind(t, interlock.LeaseFrom(ctx))
			wantErr(t, context.Cause(later), interlock.ErrClosed)
			time.Sleep(5 * time.Second)
			failIf(t, ended(closed), "Close did not wait for the function")
			busy(t, otherA.Mutex("m"), true)
			busy(t, otherB.Mutex("n"), true)
			return nil
		})
		ok(t, err)
		<-closed
		nothingLeft(t, b, otherA, otherB)
	})
	simulated(t, func(t *testing.T) {
		a, otherA := pair(t)
		b, otherB := pair(t)
		lease := acquire(t, interlock.All(a.Mutex("m"), b.Mutex("n")))
		ok(t, a.Close())
		wantErr(t, lease.Err(), interlock.ErrLost)
		wantErr(t, lease.Err(), interlock.ErrClosed)
		busy(t, otherB.Mutex("n"), true)
		wantErr(t, lease.Release(), interlock.ErrLost)
		nothingLeft(t, b, otherA, otherB)

		held := acquire(t, otherB.Mutex("n"))
		c := async(ctx, interlock.All(otherA.Mutex("m"), b.Mutex("n")))
		ok(t, otherA.Close()) // while the rest is waited for
		wantErr(t, (<-c).err, interlock.ErrClosed)
		ok(t, held.Release())
		nothingLeft(t, b, otherB)
	})
}

func TestAllOfFixedTimesOutlivesItsClients(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, otherA := pair(t)
		b, otherB := pair(t)
		lease := acquire(t, interlock.All(a.Mutex("m"), b.Mutex("n")).With(interlock.ExpiresAfter(time.Minute)))
		ok(t, a.Close())
		wantErr(t, lease.Err(), interlock.ErrClosed)
		time.Sleep(2 * ttl)
		ok(t, b.Close())
		busy(t, otherA.Mutex("m"), true)
		busy(t, otherB.Mutex("n"), true)
		time.Sleep(time.Minute)
		nothingLeft(t, otherA, otherB)
	})
}

// A backend that does not answer holds up no release on another.
func TestAnUnreachablePartHoldsUpNoOther(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, _ := pair(t)
		b, otherB := pair(t)
		lease := acquire(t, interlock.All(a.Mutex("z"), b.Mutex("n")))
		a.faults().Cut()
		released := does(lease.Release)
		time.Sleep(time.Second)
		busy(t, otherB.Mutex("n"), false)
		err := <-released
		wantErr(t, err, interlock.ErrLost)
		errtest.Says(t, err, "z: ")
		wantErr(t, lease.Err(), interlock.ErrLost)
		a.faults().Heal()
	})
}

// What was acquired is given back later, when the backend is back.
func TestWhoGivesUpAllDoesNotWaitForABackendThatIsAway(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, otherB member) {
		held := acquire(t, otherB.Mutex("n"))
		all := interlock.All(a.Mutex("m"), b.Mutex("n"))
		for name, c := range map[string]struct {
			acquire func() (*interlock.Lease, error)
			within  time.Duration
		}{
			"a wait that is given up": {func() (*interlock.Lease, error) {
				short := lasting(t, time.Second)
				return all.Acquire(short)
			}, 1200 * time.Millisecond},
			"a try": {func() (*interlock.Lease, error) { return all.TryAcquire(ctx) }, ttl / 3},
		} {
			hung := a.faults().Before("Leave", 1).Hang()
			began := time.Now()
			_, err := c.acquire()
			fatalIf(t, err == nil, "it has both")
			within(t, began, c.within, "%s took", name)
			hung.Lose()
			time.Sleep(time.Second)
			busy(t, otherA.Mutex("m"), false)
		}
		ok(t, held.Release())
	}))
}

func TestAPartOfAnElectionSetsItsValue(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, other member) {
		e := a.Election("e")
		ok(t, interlock.All(e.Candidate("first"), a.Mutex("m")).Do(ctx, func(ctx context.Context) error {
			ok(t, e.SetValue(ctx, interlock.LeaseFrom(ctx), "second"))
			leader := errtest.Must(other.Election("e").Leader(ctx))(t)
			failIf(t, leader.Note != "second", "%v", leader.Note)
			return nil
		}))
	}))
}

// So the parts are released in the reverse of the order in which they were acquired.
func TestEventsOfAllAreThoseOfItsParts(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var r record
		a := join(t, memlock.NewWorld(), r.observe())
		ok(t, acquire(t, interlock.All(a.Mutex("n"), a.Mutex("m"))).Release())
		seen := ""
		for _, e := range r.events {
			seen += string(e.Kind) + " " + e.Name + ", "
		}
		equal(t, seen, "acquired m, acquired n, released n, released m, ", "events")
	})
}

// Whichever call of a client fails, before or after it had its effect, or hangs: no part has two
// holders, nobody waits for ever, and nothing is left behind.
func TestAnyCallOfAllMayFail(t *testing.T) { anyCallMayFail(t, "all", 25, scenarioOfAll) }

// scenarioOfAll has clients of two backends contend for several locks at once. One client runs into faults.
func scenarioOfAll(t *testing.T, arm func(*memlock.Faults)) {
	a, otherA := pair(t)
	b, otherB := pair(t)
	judges := map[string]*referee{"x": {t: t}, "y": {t: t}, "z": {t: t}}
	arm(a.faults())
	var wg sync.WaitGroup
	for _, all := range []*interlock.Lock{
		interlock.All(a.Mutex("x"), b.Mutex("y"), a.Mutex("z")),
		interlock.All(otherA.Mutex("z"), otherB.Mutex("y"), otherA.Mutex("x")),
		interlock.All(otherB.Mutex("y"), a.Mutex("z", interlock.StrictOrder())),
	} {
		wg.Go(func() {
			for range 3 {
				lease, err := all.Acquire(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				for _, p := range lease.Parts() {
					judges[p.Name()].enter(p)
				}
				time.Sleep(2 * time.Second)
				for _, p := range lease.Parts() {
					judges[p.Name()].Leave(p)
				}
				mayBeLost(t, lease.Release())
			}
		})
	}
	wg.Wait()
	a.faults().Clear()
	time.Sleep(4 * ttl)
	nothingLeft(t, a, b, otherA, otherB)
}
