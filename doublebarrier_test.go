package interlock_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// enter enters in the background.
func enter(ctx context.Context, b *interlock.DoubleBarrier) <-chan result { return begun(ctx, b.Enter) }

// A member that dies, or gives up, before the round is full does not count.
func TestAMemberThatDiesOutsideDoesNotCount(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b, c := trio(t)
		dying, end := context.WithCancel(ctx)
		dies := enter(dying, a.DoubleBarrier("d", 3))
		giving, cancel := context.WithCancel(ctx)
		gives := enter(giving, b.DoubleBarrier("d", 3))
		a.faults().Before("", 0).Hang()
		cancel()
		wantErr(t, (<-gives).err, context.Canceled)
		time.Sleep(2 * ttl)
		enters := []<-chan result{enter(ctx, b.DoubleBarrier("d", 3)), enter(ctx, c.DoubleBarrier("d", 3))}
		for _, e := range enters {
			notYet(t, e, "a dead member was counted")
		}
		enters = append(enters, enter(ctx, c.DoubleBarrier("d", 3)))
		for _, e := range enters {
			turn(t, e)
		}
		end()
		r := <-dies
		failIf(t, r.err == nil, "the dead member entered")
	})
}

// What a latch has left after Leave is how many of the round did not finish.
func TestALatchTellsOfADeathInside(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		members := []member{join(t, w), join(t, w), join(t, w)}
		set := errtest.Must(members[0].Latch("d").Set(ctx, int64(len(members))))(t)
		fatalIf(t, !set, "the latch was set before")
		var enters []<-chan result
		for _, m := range members {
			enters = append(enters, enter(ctx, m.DoubleBarrier("d", len(members))))
		}
		var left []<-chan error
		for i, e := range enters {
			r := served(t, e)
			if i > 0 {
				errtest.Must(members[i].Latch("d").CountDown(ctx))(t)
				left = append(left, does(func() error { return members[i].DoubleBarrier("d", len(members)).Leave(ctx, r.lease) }))
			}
		}
		members[0].faults().Expire()
		for _, l := range left {
			ok(t, <-l)
			missing, _, err := members[1].Latch("d").Count(ctx)
			ok(t, err)
			failIf(t, missing != 1, "%d have not finished, want 1", missing)
		}
	})
}

func TestMembersMustAgreeOnTheirNumber(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		first, second := enter(ctx, a.DoubleBarrier("d", 2)), enter(ctx, a.DoubleBarrier("d", 2))
		one, two := <-first, <-second
		ok(t, one.err)
		wantErr(t, errOf(b.DoubleBarrier("d", 3).Enter(ctx)), interlock.ErrMismatch)
		ok(t, one.lease.Release())
		ok(t, two.lease.Release())
		early := enter(ctx, a.DoubleBarrier("d", 3)) // before any round is full
		synctest.Wait()
		wantErr(t, errOf(b.DoubleBarrier("d", 2).Enter(ctx)), interlock.ErrMismatch)
		notYet(t, early, "entered with two of three")
		for range 2 {
			enter(ctx, a.DoubleBarrier("d", 3))
		}
		ok(t, (<-early).err)
		for _, n := range []int{0, -1, interlock.MaxMembers + 1} {
			wantErr(t, errOf(a.DoubleBarrier("d", n).Enter(ctx)), interlock.ErrInvalid)
		}
	})
}

// Over many rounds with members that die at random, each round has exactly its
// members, and no two rounds overlap.
func TestRoundsDoNotLeakIntoEachOther(t *testing.T) {
	for seed := range 5 {
		simulated(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			w := memlock.NewWorld()
			const members, size = 7, 3
			var mu sync.Mutex
			inside := map[*interlock.Lease]bool{}
			// No more than a round's members are ever inside.
			count := func() {
				n := 0
				for lease := range inside {
					if lease.Err() == nil {
						n++
					}
				}
				failIf(t, n > size, "%d of %d are inside", n, size)
			}
			var wg sync.WaitGroup
			rounds := 0
			for range members {
				m := join(t, w, interlock.TTL(time.Second))
				pause := make([]time.Duration, 30)
				for j := range pause {
					pause[j] = time.Duration(random.IntN(50)) * time.Millisecond
				}
				dies := random.IntN(len(pause))
				wg.Go(func() {
					d := m.DoubleBarrier("d", size)
					for j, p := range pause {
						time.Sleep(p)
						bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
						lease, err := d.Enter(bounded)
						cancel()
						if err != nil {
							continue // too few are left at the end, or it died
						}
						time.Sleep(time.Nanosecond) // the news of a session's end has arrived then
						mu.Lock()
						inside[lease] = true
						rounds++
						count()
						mu.Unlock()
						time.Sleep(p)
						if j == dies {
							m.faults().Expire()
							time.Sleep(time.Nanosecond)
						}
						mu.Lock()
						delete(inside, lease)
						mu.Unlock()
						_ = d.Leave(ctx, lease)
					}
				})
			}
			wg.Wait()
			failIf(t, rounds < 100, "seed %d: %d entries", seed, rounds)
		})
	}
}

// Who leaves when its round is over waits for nobody, though the next round is under way.
func TestLeavingARoundThatIsOverDoesNotWaitForTheNext(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		d, e := a.DoubleBarrier("d", 2), b.DoubleBarrier("d", 2)
		first, second := enter(ctx, d), enter(ctx, e)
		one, two := <-first, <-second
		third, fourth := enter(ctx, d), enter(ctx, e)
		ok(t, one.lease.Release())
		ok(t, two.lease.Release())
		three, four := <-third, <-fourth
		bounded := lasting(t, time.Second)
		ok(t, d.Leave(bounded, one.lease))
		ok(t, three.lease.Release())
		ok(t, four.lease.Release())
	}))
}

// A member whose context ends says how many were there.
func TestAMemberThatGivesUpSaysHowManyWereThere(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		gives := func(want string) {
			t.Helper()
			bounded, cancel := context.WithTimeoutCause(ctx, time.Second, interlock.ErrBusy)
			defer cancel()
			err := errOf(a.DoubleBarrier("d", 3).Enter(bounded))
			wantErr(t, err, interlock.ErrBusy)
			failIf(t, !strings.HasSuffix(err.Error(), want), "it says %q, not %q", err, want)
		}
		counts := func(waiting, inside int) {
			t.Helper()
			w, i, err := a.DoubleBarrier("d", 3).Count(ctx)
			ok(t, err)
			failIf(t, w != waiting || i != inside, "%d wait and %d are inside, want %d and %d", w, i, waiting, inside)
		}
		gives(": 1 of 3 members were there")
		counts(0, 0)
		first, second := enter(ctx, b.DoubleBarrier("d", 3)), enter(ctx, b.DoubleBarrier("d", 3))
		counts(2, 0)
		third := enter(ctx, b.DoubleBarrier("d", 3))
		one, two, three := <-first, <-second, <-third
		ok(t, one.lease.Release())
		counts(0, 2)
		gives(": 1 of 3 members were there, and 2 of the last round had not left")
		ok(t, two.lease.Release())
		ok(t, three.lease.Release())
		counts(0, 0)
	}))
}

// A member whose context ends does not wait for a backend that is away.
func TestAMemberThatGivesUpDoesNotWaitForTheBackend(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		giving, cancel := context.WithCancel(ctx)
		gives := enter(giving, a.DoubleBarrier("d", 2))
		a.faults().Cut()
		cancel()
		given := time.Now()
		r := <-gives
		wantErr(t, r.err, context.Canceled)
		d := r.at.Sub(given)
		failIf(t, d > time.Second, "it has waited for %v", d)
		a.faults().Heal()
		time.Sleep(ttl)
	}))
}

// A member with which a round has begun while it was cut off, or one that was evicted, does not come again.
func TestAMemberThatTheOthersHaveEnteredWithoutIsLost(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		bounded := lasting(t, time.Hour)
		misses := enter(bounded, a.DoubleBarrier("d", 2))
		a.faults().Cut()
		enters := <-enter(ctx, b.DoubleBarrier("d", 2))
		ok(t, enters.err)
		time.Sleep(2 * ttl)
		a.faults().Heal()
		r := <-misses
		wantErr(t, r.err, interlock.ErrLost)
		failIf(t, !strings.HasSuffix(r.err.Error(), "; the others have entered without it"), "it says %q", r.err)
		ok(t, b.DoubleBarrier("d", 2).Leave(ctx, enters.lease))

		time.Sleep(ttl) // a place is taken when a heartbeat has been answered after the outage
		evicted := enter(bounded, a.DoubleBarrier("d", 2))
		evict(t, b, "d", false)
		wantErr(t, (<-evicted).err, interlock.ErrEvicted)
	}))
}
