package interlock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/interlock-go/interlock/internal/errtest"
)

// What a round costs a client grows with its members, not with their square, also when
// they come and leave one after the other.
func TestMembersOfOneClientShareItsReads(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		const n = 200
		d := a.DoubleBarrier("d", n)
		before := a.Admin().Exchanges()
		var enters []<-chan result
		for range n {
			enters = append(enters, enter(ctx, d))
		}
		entered := a.Admin().Exchanges()
		failIf(t, entered-before > 6*n, "Enter costs %d exchanges for %d", entered-before, n)
		var leaves []<-chan error
		for _, e := range enters {
			r := served(t, e)
			leaves = append(leaves, does(func() error { return d.Leave(ctx, r.lease) }))
		}
		for _, l := range leaves {
			ok(t, <-l)
		}
		costs(t, a, entered, 6*n)
	}))
}

// Of the members of a client, one begins the round.
func TestOneMemberOfAClientBeginsTheRound(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, _ member) {
		hung := a.faults().Before("Swap", 0).Hang()
		var enters []<-chan result
		for range 10 {
			enters = append(enters, enter(ctx, a.DoubleBarrier("d", 10)))
		}
		synctest.Wait()
		before := a.Admin().Exchanges()
		hung.Deliver()
		for _, e := range enters {
			r := served(t, e)
			defer r.lease.Release()
		}
		// One Swap, its news, one read of both, and one call that waits for more news.
		costs(t, a, before, 5)
	}))
}

// The context of the member that came first ends its own wait, and no other's.
func TestAMemberThatGivesUpDoesNotEndTheReadsOfOthers(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		giving, cancel := context.WithCancel(ctx)
		gives := enter(giving, a.DoubleBarrier("d", 3))
		enters := []<-chan result{enter(ctx, a.DoubleBarrier("d", 3))}
		synctest.Wait()
		cancel()
		wantErr(t, (<-gives).err, context.Canceled)
		for range 2 {
			enters = append(enters, enter(ctx, b.DoubleBarrier("d", 3)))
		}
		for _, e := range enters {
			turn(t, e)
		}
	}))
}

// When nobody waits any more, nothing is read any more.
func TestTheLastMemberThatGivesUpEndsTheReads(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		giving, cancel := context.WithCancel(ctx)
		gives := []<-chan result{enter(giving, a.DoubleBarrier("d", 3)), enter(giving, a.DoubleBarrier("d", 3))}
		synctest.Wait()
		cancel()
		for _, g := range gives {
			wantErr(t, (<-g).err, context.Canceled)
		}
		nothingLeft(t, a, b)
		before := a.Admin().Exchanges()
		ok(t, acquire(t, b.Mutex("d")).Release())
		synctest.Wait()
		costs(t, a, before, 0)
	}))
}

// A member that leaves waits for the others though what the client had read before shows
// no round at all.
func TestWhoComesJudgesByNothingOlder(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, _ member) {
		a.faults().Before("Watch", 0).Hang() // no news of the round
		d := a.DoubleBarrier("d", 2)
		enters := [2]<-chan result{enter(ctx, d), enter(ctx, d)}
		synctest.Wait()
		// The one that began the round knows it. The other reads on for the client, unless its first read was later.
		first, other := enters[0], enters[1]
		if len(first) == 0 {
			first, other = other, first
		}
		r := served(t, first)
		left := does(func() error { return d.Leave(ctx, r.lease) })
		fatalIf(t, len(left) > 0, "left alone")
		r = served(t, other)
		ok(t, d.Leave(ctx, r.lease))
		ok(t, <-left)
	}))
}

// An answer that comes late shows nothing that is older than what was seen.
func TestWhatWasAskedForBeforeAReadIsNotShownAfterIt(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		first := observed(t, b.Election("e"))
		// The first question may be older than the last read, and its answer not shown. Those after it are not.
		zero := errtest.Must(a.Election("e").Campaign(ctx, "zero"))(t)
		synctest.Wait()
		ok(t, zero.Release())
		synctest.Wait()
		late := b.faults().After("Follow", 1).Hang() // the question that comes after the answer "one"
		one := errtest.Must(a.Election("e").Campaign(ctx, "one"))(t)
		synctest.Wait()
		ok(t, one.Release())
		<-late.Reached() // with the answer that nobody leads
		two := errtest.Must(a.Election("e").Campaign(ctx, "two"))(t)
		second := observed(t, b.Election("e")) // reads again
		b.faults().Before("Follow", 1).Hang()  // what comes after the late answer comes later still
		late.Deliver()
		synctest.Wait()
		got, want := append(first(), second()...), []string{"", "zero", "", "one", "two", "two"}
		failIf(t, !slices.Equal(got, want), "seen were %q, want %q", got, want)
		ok(t, two.Release())
	}))
}

// An error that would be the same next time is told to all who wait, and to nobody
// who comes later.
func TestAReadThatFailsForGoodFailsForAll(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		enters := []<-chan result{enter(ctx, a.DoubleBarrier("d", 3)), enter(ctx, a.DoubleBarrier("d", 3))}
		synctest.Wait()
		missing := errors.New("the right to read is missing")
		a.faults().Before("Load", 1).Refuse(missing)
		for _, e := range append(enters, enter(ctx, a.DoubleBarrier("d", 3))) {
			wantErr(t, (<-e).err, missing)
		}
		var round []<-chan result
		for _, m := range []member{a, b, a} {
			round = append(round, enter(ctx, m.DoubleBarrier("d", 3)))
		}
		for _, e := range round {
			turn(t, e)
		}
	}))
}

// A call that is slow to take note of an error keeps nobody from reading again.
func TestWhoComesAfterAFailureReadsAgain(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, _ member) {
		busy := make(chan struct{})
		slow := make(chan error, 1)
		go func() {
			for _, err := range a.Election("e").Observe(ctx) {
				if slow <- err; err != nil {
					return
				}
				<-busy
			}
		}()
		ok(t, <-slow)
		missing := errors.New("the right to read is missing")
		for _, want := range []error{missing, nil} {
			if want != nil {
				a.faults().Before("Load", 1).Refuse(want)
			}
			for _, err := range a.Election("e").Observe(ctx) {
				failIf(t, !errors.Is(err, want), "got %v, want %v", err, want)
				break
			}
		}
		close(busy)
		wantErr(t, <-slow, missing)
	}))
}
