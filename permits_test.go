package interlock_test

import (
	"context"
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
		synctest.Wait()
		light := async(ctx, weighs(b, 1))
		synctest.Wait()
		ok(t, a.Admin().SetPermits(ctx, "s", 3))
		first := now(t, light, "who fits is kept out")
		r := <-heavy // it has tried once more
		wantErr(t, r.err, interlock.ErrMismatch)
		if !strings.Contains(r.err.Error(), "set to 3, and 24 are wanted") {
			t.Error(r.err)
		}
		first.release(t)
		ok(t, a.Admin().UnsetPermits(ctx, "s"))
		ok(t, lease.Release())
	}))
}

// An answer that is lost changes nothing about what is set, and nothing about who holds.
func TestSetPermitsWithLostReplies(t *testing.T) {
	for _, after := range []bool{true, false} {
		simulated(t, both(func(t *testing.T, a, b member) {
			lease := acquire(t, a.Semaphore("s", 1))
			next := async(ctx, b.Semaphore("s", 1))
			synctest.Wait()
			if after {
				a.faults().After("Resize", 2).Fail()
			} else {
				a.faults().Before("Resize", 2).Fail()
			}
			ok(t, a.Admin().SetPermits(ctx, "s", 2))
			r := now(t, next, "who fits is not served")

			// The answer of a Join is lost, and the number is another one when it is repeated.
			b.faults().After("Join", 1).Fail()
			ok(t, lease.Release())
			third := async(ctx, b.Semaphore("s", 2))
			ok(t, a.Admin().SetPermits(ctx, "s", 5))
			got3 := served(t, third)
			q := errtest.Must(a.Admin().Queue(ctx, "s"))(t)
			if len(q.Holders) != 2 || len(q.Waiters) != 0 {
				t.Errorf("two hold, and it shows %+v", q)
			}
			ok(t, got3.lease.Release())
			ok(t, r.lease.Release())
			ok(t, a.Admin().UnsetPermits(ctx, "s"))
		}))
	}
}

// A program whose own number is set, or for which none is set any more, just after another one was in its way, is served by its own.
func TestTheOwnNumberIsSetInBetween(t *testing.T) {
	for how, change := range map[string]func(member) error{
		"set":   func(m member) error { return m.Admin().SetPermits(ctx, "s", 5) },
		"unset": func(m member) error { return m.Admin().UnsetPermits(ctx, "s") },
	} {
		for _, try := range []bool{false, true} {
			simulated(t, both(func(t *testing.T, a, b member) {
				ok(t, a.Admin().SetPermits(ctx, "s", 3))
				look := b.faults().Before("Follow", 1).Hang()
				done := make(chan result, 1)
				go func() {
					s := b.Semaphore("s", 5)
					get := s.Acquire
					if try {
						get = s.TryAcquire
					}
					lease, err := get(ctx)
					done <- result{lease: lease, err: err}
				}()
				synctest.Wait()
				ok(t, change(a))
				look.Deliver()
				r := <-done
				if r.err != nil {
					t.Fatalf("%s, try %v: %v", how, try, r.err)
				}
				ok(t, r.lease.Release())
				ok(t, a.Admin().UnsetPermits(ctx, "s"))
			}))
		}
	}
}

// A program whose own number counts again, since the one that was set was unset and others have come who say the same, is served,
// whatever it has asked for in between.
func TestTheOwnNumberCountsAgain(t *testing.T) {
	for method, call := range map[string]int{"Follow": 1, "Join": 2} {
		simulated(t, both(func(t *testing.T, a, b member) {
			ok(t, a.Admin().SetPermits(ctx, "s", 3))
			late := b.faults().Before(method, call).Hang()
			done := make(chan result, 1)
			go func() {
				lease, err := b.Semaphore("s", 5).Acquire(ctx)
				done <- result{lease: lease, err: err}
			}()
			synctest.Wait()
			ok(t, a.Admin().UnsetPermits(ctx, "s"))
			other := acquire(t, a.Semaphore("s", 5))
			late.Deliver()
			r := <-done
			if r.err != nil {
				t.Fatalf("%s: %v", method, r.err)
			}
			ok(t, r.lease.Release())
			ok(t, other.Release())
		}))
	}
}

// A refusal that lasts, and that the queue does not explain, is an error soon: a number was set at members of a quorum, which shows
// none.
func TestAMismatchThatNothingExplains(t *testing.T) {
	simulated(t, func(t *testing.T) {
		clients, _ := members(t, []*memlock.World{memlock.NewWorld(), memlock.NewWorld(), memlock.NewWorld()})
		q := quorum(t, clients...)
		time.Sleep(11 * time.Second) // they are new
		for _, c := range clients {
			ok(t, c.Admin().SetPermits(ctx, "s", 5))
		}
		patient, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
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
		if most > 6 {
			t.Errorf("%d hold, where six permits were set at most", most)
		}
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
			if cost := a.Admin().Exchanges() - before; cost != want {
				t.Errorf("an acquire and a release by a program that says %d cost %d exchanges, not %d", permits, cost, want)
			}
		}
	}))
}

// Another kind of lock is refused, also while nobody uses the name, and the error says what it is.
func TestAMutexWherePermitsAreSet(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		ok(t, a.Admin().SetPermits(ctx, "s", 3))
		err := errOf(a.Mutex("s").TryAcquire(ctx))
		wantErr(t, err, interlock.ErrMismatch)
		if !strings.Contains(err.Error(), "this is a mutex, and by SetPermits it is a semaphore with 3 permits") {
			t.Error(err)
		}
		ok(t, a.Admin().UnsetPermits(ctx, "s"))
		ok(t, acquire(t, a.Mutex("s")).Release())
	}))
}

// A context that holds permits is not told of a deadlock while there are enough by the number that it works with.
func TestDeadlockGoesByTheNumberThatIsSet(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		ok(t, a.Admin().SetPermits(ctx, "s", 3))
		lease := acquire(t, a.Semaphore("s", 2, interlock.Weight(2)))
		held, cancel := lease.Bind(ctx)
		defer cancel()
		third := errtest.Must(a.Semaphore("s", 2).TryAcquire(held))(t)
		wantErr(t, errOf(a.Semaphore("s", 2, interlock.Weight(2)).TryAcquire(held)), interlock.ErrDeadlock)
		ok(t, third.Release())
		ok(t, lease.Release())
	}))
}
