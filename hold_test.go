package interlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Of the time of ExpiresAfter a tenth, and a second at most, is not the holder's: it has to be done when
// the next one begins.
func TestWhatOfAHoldCanBeUsed(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		for hold, usable := range map[time.Duration]time.Duration{
			4 * time.Second: 3600 * time.Millisecond,
			time.Minute:     59 * time.Second,
		} {
			lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(hold)))
			equal(t, lease.Remaining(), usable, "what can be used of ExpiresAfter(%v)", hold)
			wantErr(t, lease.Extend(ctx, 0), interlock.ErrInvalid)
			ok(t, lease.Release())
		}
	}))
}

// A waiter for a fixed time is renewed like any other, its time runs from the grant.
func TestHoldCountsFromTheGrant(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		holder := acquire(t, a.Mutex("m"))
		waits := async(ctx, b.Mutex("m", interlock.ExpiresAfter(time.Minute)))
		time.Sleep(time.Hour)
		ok(t, holder.Release())
		r := served(t, waits)
		time.Sleep(50 * time.Second)
		ok(t, r.lease.Err())
		ok(t, r.lease.Release())
	}))
}

// Whatever another process does with it, the lease is told in time: before
// anybody else can hold the lock if it was evicted.
func TestALeaseOfHoldIsToldThatItHasEnded(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, b member, id string){
		"released elsewhere": func(t *testing.T, b member, id string) { ok(t, errtest.Must(b.Adopt(ctx, "m", id))(t).Release()) },
		"evicted":            func(t *testing.T, b member, id string) { ok(t, b.Admin().Evict(ctx, "m", id, false)) },
	} {
		for _, replaced := range []bool{false, true} {
			simulatedAs(t, name, both(func(t *testing.T, a, b member) {
				lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Hour)))
				if replaced {
					a.faults().Expire()
					time.Sleep(time.Second)
				}
				began := time.Now()
				end(t, b, lease.ID())
				<-lease.Done()
				within(t, began, ttl/3, "told after")
				wantErr(t, lease.Release(), interlock.ErrLost)
				ok(t, errtest.Must(b.Mutex("m", interlock.Wait(time.Second)).Acquire(ctx))(t).Release())
			}))
		}
	}
}

// When it is not known whether a shortening took effect, the lease ends at the
// earlier time.
func TestAnAmbiguousExtendCountsAsTheEarlierEnd(t *testing.T) {
	for side, at := range sides {
		simulatedAs(t, side, func(t *testing.T) {
			a, b := pair(t)
			lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Hour)))
			at(a.faults(), "Keep", 0).Fail()
			wantErr(t, lease.Extend(lasting(t, time.Second), 10*time.Second), context.DeadlineExceeded)
			next := async(ctx, b.Mutex("m"))
			<-lease.Done()
			notYet(t, next, "the next one held before the loss")
			turn(t, next)
		})
	}
}

// Adopting a lease of one's own gives a second handle; releasing one releases
// the lock.
func TestAdoptAnOwnLease(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute)))
		var again *interlock.Lease
		for range 2 * interlock.MaxGrants {
			again = errtest.Must(a.Adopt(ctx, "m", lease.ID()))(t)
			fatalIf(t, again.Token() != lease.Token(), "token %d, want %d", again.Token(), lease.Token())
		}
		ok(t, again.Extend(ctx, time.Hour))
		time.Sleep(2 * time.Minute)
		ok(t, lease.Err())
		ok(t, again.Release())
		wantErr(t, lease.Err(), interlock.ErrLost)
		wantErr(t, lease.Release(), interlock.ErrLost)
		wantErr(t, errOf(a.Adopt(ctx, "m", lease.ID())), interlock.ErrLost)
	}))
}

// Two that adopt one lease at once share it.
func TestAdoptTwiceAtOnce(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute)))
		slow := b.faults().After("Follow", 1).Hang()
		adopt := func(ctx context.Context) (*interlock.Lease, error) { return b.Adopt(ctx, "m", lease.ID()) }
		one, two := begun(ctx, adopt), begun(ctx, adopt)
		slow.Deliver()
		first, second := served(t, one).lease, served(t, two).lease
		ok(t, first.Err())
		ok(t, second.Err())
		ok(t, first.Release())
		wantErr(t, second.Err(), interlock.ErrLost) // at once: they are one ticket
		wantErr(t, second.Release(), interlock.ErrLost)
		nothingLeft(t, b)
	})
}

// Releasing a lease of a long time does not wait for its end if the backend is away, or say that it is lost, and Close
// does not wait for what could not be given back.
func TestReleasingAHoldIsTriedForATTL(t *testing.T) {
	for _, said := range []error{memlock.ErrFailed, driver.ErrSession} {
		simulated(t, func(t *testing.T) {
			a := join(t, memlock.NewWorld())
			lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Hour)))
			if said == memlock.ErrFailed {
				a.faults().Before("Leave", 0).Fail()
			} else {
				a.faults().Before("Leave", 0).Refuse(said)
			}
			began := time.Now()
			err := lease.Release()
			failIf(t, err == nil || errors.Is(err, interlock.ErrLost), "%v", err)
			wantErr(t, lease.Err(), interlock.ErrReleased)
			within(t, began, 2*ttl, "tried for")
			began = time.Now()
			ok(t, a.Close())
			within(t, began, time.Second, "closed after")
		})
	}
}

func TestAtLeastKeepsOthersOut(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		began := time.Now()
		lease := acquire(t, a.Mutex("m", interlock.AtLeast(time.Minute)))
		time.Sleep(10 * time.Second)
		ok(t, lease.Release())
		wantErr(t, lease.Err(), interlock.ErrReleased)
		wantErr(t, errOf(b.Mutex("m").TryAcquire(ctx)), interlock.ErrBusy)
		wantErr(t, errOf(a.Mutex("m").TryAcquire(ctx)), interlock.ErrBusy)
		next := acquire(t, b.Mutex("m", interlock.ReportDeath()))
		equal(t, time.Since(began), time.Minute, "kept out for")
		inherits(t, next, false)
		ok(t, next.Release())

		long := acquire(t, a.Mutex("m", interlock.AtLeast(time.Minute)))
		time.Sleep(2 * time.Minute)
		ok(t, long.Release())
		next = errtest.Must(b.Mutex("m").TryAcquire(ctx))(t)
		ok(t, next.Release())

		closed := acquire(t, a.Mutex("m", interlock.AtLeast(time.Minute)))
		began = time.Now()
		ok(t, a.Close())
		wantErr(t, closed.Err(), interlock.ErrReleased)
		next = acquire(t, b.Mutex("m"))
		equal(t, time.Since(began), time.Minute, "kept out after Close for")
		ok(t, next.Release())
		nothingLeft(t, b)
	})
}

// Promise: AtMost ends a lease at its time although it is renewed, and says so. Others get the lock when its holder
// releases it, or a TTL later.
func TestAtMostEndsALease(t *testing.T) {
	const long = 10 * time.Minute
	simulated(t, both(func(t *testing.T, a, b member) {
		for _, releases := range []bool{true, false} {
			began := time.Now()
			lease := acquire(t, a.Mutex("m", interlock.AtMost(long)))
			left := lease.Deadline().Sub(began)
			failIf(t, left >= ttl, "the first deadline comes after %v, although the lease is renewed", left)
			bound, cancel := lease.Bind(ctx)
			next := async(ctx, b.Mutex("m"))
			time.Sleep(long - ttl/2)
			ok(t, lease.Err())
			equal(t, lease.Remaining(), ttl/2, "left before the end of AtMost")
			<-bound.Done()
			equal(t, time.Since(began), long, "the context ends after")
			wantErr(t, context.Cause(bound), interlock.ErrLost)
			text := lease.Err().Error()
			failIf(t, !strings.Contains(text, "held for 10m0s, as long as AtMost allows"), "%v", text)
			time.Sleep(time.Second)
			failIf(t, len(next) > 0, "the next one holds before this one has released, or a TTL is over")
			cancel()
			if releases {
				wantErr(t, lease.Release(), interlock.ErrLost)
			}
			r := served(t, next)
			switch d := r.at.Sub(began); {
			case releases && d != long+time.Second:
				t.Errorf("the next one holds after %v", d)
			case !releases && (d <= long+time.Second || d > long+ttl):
				t.Errorf("the next one holds after %v, without a release", d)
			}
			ok(t, r.lease.Release())
			if !releases {
				wantErr(t, lease.Release(), interlock.ErrLost)
			}
		}
	}))
}

// Promise: a release just before the end of AtMost is repeated as any other, as long as the backend has the lock.
func TestAReleaseBeforeTheEndOfAtMostIsRepeated(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m", interlock.AtMost(ttl)))
		time.Sleep(ttl - time.Millisecond)
		a.faults().Before("Leave", 1).Fail()
		ok(t, lease.Release())
	}))
}

// Promise: a leader whose time is over stands again, behind who waits.
func TestAtMostHandsTheLeadershipOn(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		ctx, end := context.WithCancel(ctx)
		var led []string
		var all sync.WaitGroup
		for i, c := range []member{a, b} {
			name := []string{"a", "b"}[i]
			all.Go(func() {
				_ = c.Election("e", interlock.AtMost(time.Minute)).Lead(ctx, name, func(ctx context.Context) error {
					led = append(led, name)
					<-ctx.Done()
					return nil
				})
			})
			synctest.Wait()
		}
		time.Sleep(3*time.Minute + time.Second)
		end()
		all.Wait()
		want := []string{"a", "b", "a", "b"}
		failIf(t, !slices.Equal(led, want), "led: %q, want %q", led, want)
	}))
}

// Promise: a leader that is not healthy leads no more: its context names the reason, the next one leads when it has
// stopped, or a TTL later although it goes on, and it stands again when it is healthy.
func TestAnUnhealthyLeaderHandsTheLeadershipOn(t *testing.T) {
	ill := errors.New("the disk is full")
	for name, c := range map[string]struct {
		check func(context.Context) error // from the third call on
		stops bool
		why   string
		after time.Duration // the loss, from when the next check is due
	}{
		"an error":              {func(context.Context) error { return ill }, true, "is not healthy: the disk is full", 0},
		"an error, and goes on": {func(context.Context) error { return ill }, false, "is not healthy: the disk is full", 0},
		"no answer":             {func(context.Context) error { time.Sleep(3 * ttl); return nil }, true, "has not returned within", ttl},
	} {
		simulatedAs(t, name, both(func(t *testing.T, a, b member) {
			ctx, end := context.WithCancel(ctx)
			var all sync.WaitGroup
			var calls atomic.Int32
			terms := 0
			began, lost, next := time.Now(), time.Duration(0), time.Duration(0)
			all.Go(func() {
				_ = a.Election("e").LeadWhile(ctx, "a", func(ctx context.Context) error {
					if calls.Add(1) == 3 {
						return c.check(ctx)
					}
					return nil
				}, func(ctx context.Context) error {
					if terms++; terms > 1 {
						end()
					}
					<-ctx.Done()
					if terms == 1 {
						lost = time.Since(began)
						wantErr(t, context.Cause(ctx), interlock.ErrLost)
						errtest.Says(t, context.Cause(ctx), c.why)
						if !c.stops {
							time.Sleep(2 * ttl)
						}
					}
					return nil
				})
			})
			synctest.Wait()
			all.Go(func() {
				lease := acquire(t, b.Election("e").Candidate("b"))
				next = time.Since(began)
				time.Sleep(time.Second)
				ok(t, lease.Release())
			})
			all.Wait()
			time.Sleep(3 * ttl) // a check is left behind
			want := 2*ttl/3 + c.after
			failIf(t, lost < want-time.Second || lost > want+time.Second, "it is lost after %v, want %v", lost, want)
			switch {
			case c.stops && next != lost:
				t.Errorf("the next one leads %v after one that has stopped", next-lost)
			case !c.stops && (next <= lost || next > lost+ttl):
				t.Errorf("the next one leads %v after one that goes on", next-lost)
			}
			failIf(t, terms != 2, "it has led %d times, want twice", terms)
		}))
	}
}

// Promise: a candidate that is not healthy stands in nobody's way, and its Lead ends with its context.
func TestAnUnhealthyCandidateDoesNotStand(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		ctx := lasting(t, 10*ttl)
		led := make(chan error, 1)
		go func() {
			led <- a.Election("e").LeadWhile(ctx, "a", func(context.Context) error { return errors.New("not yet") }, func(context.Context) error {
				t.Error("it leads")
				return nil
			})
		}()
		time.Sleep(5 * ttl)
		q := errtest.Must(b.Admin().Queue(ctx, "e"))(t)
		n := len(q.Holders) + len(q.Waiters)
		failIf(t, n > 0, "%d stand", n)
		wantErr(t, <-led, context.DeadlineExceeded)
	}))
}

// Promise: a grant of ExpiresAfter outlives its session also if nobody was told of it: if its
// Join has no answer and the session ends, the client gives it back, and does not wait
// behind itself until it ends.
func TestHoldThatWasGrantedUnseenBeforeItsSessionEnded(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lost := a.faults().After("Join", 1).Hang()
		got := async(ctx, a.Mutex("m", interlock.ExpiresAfter(24*time.Hour)))
		a.faults().Expire()
		lost.Lose()
		began := time.Now()
		r := served(t, got)
		d := r.at.Sub(began)
		failIf(t, d > 10*ttl, "it has waited for %v", d)
		ok(t, r.lease.Release())
	}))
}

// Promise: a lock with ExpiresAfter that was granted to somebody who had given up is given back as
// soon as that is possible, and not kept for its whole time because the backend could not
// be reached for longer than a TTL.
func TestHoldThatNobodyWantsIsGivenBackAfterALongOutage(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		a.faults().After("Join", 1).Hang()
		limited, cancel := context.WithCancel(ctx)
		got := async(limited, a.Mutex("m", interlock.ExpiresAfter(24*time.Hour)))
		a.faults().Before("", 0).Fail()
		cancel()
		wantErr(t, (<-got).err, context.Canceled)
		time.Sleep(10 * ttl)
		a.faults().Clear()
		began := time.Now()
		next := acquire(t, b.Mutex("m"))
		within(t, began, 2*ttl, "the next one waited for")
		ok(t, next.Release())
	}))
}

// What remains of an adopted lease counts from the time at which the backend was asked, not
// from the answer.
func TestAnAdoptedLeaseLastsNoLongerThanTheFirst(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(20*time.Second)))
		slow := b.faults().After("Follow", 1).Stick()
		time.AfterFunc(4*time.Second, slow.Deliver)
		adopted := errtest.Must(b.Adopt(ctx, "m", lease.ID()))(t)
		mine, theirs := adopted.Remaining(), lease.Remaining()
		failIf(t, mine > theirs, "adopted for %v, held for %v", mine, theirs)
		ok(t, adopted.Release())
	})
}

// Whoever wanted to adopt a lease, and came too late, does not end it for those who are at
// work under it.
func TestAnAdoptionInVainGivesNothingBack(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, c := join(t, w), join(t, w)
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(20*time.Second)))
		d := &jumping{stopped: stopped{Driver: w.Driver()}}
		b := client(t, d)
		wantErr(t, errOf(b.Adopt(ctx, "m", lease.ID())), interlock.ErrLost)
		synctest.Wait()
		wantErr(t, errOf(c.Mutex("m").TryAcquire(ctx)), interlock.ErrBusy)
		ok(t, lease.Release())
	})
}

// jumping stands still between taking note of what was adopted and making a lease of it.
type jumping struct {
	stopped
	readings atomic.Int32 // until then
}

func (d *jumping) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	q, err := d.Driver.Follow(ctx, queue, after)
	d.readings.Store(2)
	return q, err
}

func (d *jumping) Now() driver.Instant {
	if d.readings.Load() > 0 && d.readings.Add(-1) == 0 {
		d.jump(time.Minute)
	}
	return d.stopped.Now()
}

// AtLeast counts though a nested lease of another option is the last to be released.
func TestAtLeastHoldsForANestedLeaseToo(t *testing.T) {
	atLeast := interlock.AtLeast(time.Minute)
	for name, opts := range map[string][2][]interlock.Option{
		"outer": {{atLeast}, {interlock.Reentrant()}},
		"inner": {nil, {interlock.Reentrant(), atLeast}},
	} {
		simulatedAs(t, name, both(func(t *testing.T, a, b member) {
			began := time.Now()
			ok(t, a.Mutex("m", opts[0]...).Do(ctx, func(held context.Context) error {
				inner := errtest.Must(a.Mutex("m", opts[1]...).Acquire(held))(t)
				go func() {
					time.Sleep(time.Second)
					errtest.Is(t, inner.Release(), nil)
				}()
				return nil
			}))
			next := acquire(t, b.Mutex("m"))
			equal(t, time.Since(began), time.Minute, "kept out for")
			ok(t, next.Release())
		}))
	}
}

// Of two that extend a lease at once, the one that the backend did last counts.
func TestTwoThatExtendAtOnceAgreeWithTheBackend(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute)))
		slow := a.faults().After("Keep", 1).Hang()
		longer := does(func() error { return lease.Extend(ctx, time.Hour) })
		shorter := does(func() error { return lease.Extend(ctx, 20*time.Second) })
		time.Sleep(time.Second)
		slow.Deliver()
		ok(t, errors.Join(<-longer, <-shorter))
		next := async(ctx, b.Mutex("m"))
		<-lease.Done()
		notYet(t, next, "the next one held before the loss")
		turn(t, next)
	}))
}

// A lease is adopted by its ID and the name of its lock.
func TestAdoptGoesByTheName(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease, renewed := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute))), acquire(t, a.Mutex("m2"))
		for _, m := range []member{a, b} {
			wantErr(t, errOf(m.Adopt(ctx, "other", lease.ID())), interlock.ErrLost)
			for _, id := range []string{"nonsense", ""} {
				wantErr(t, errOf(m.Adopt(ctx, "m", id)), interlock.ErrInvalid)
			}
			wantErr(t, errOf(m.Adopt(ctx, "m2", renewed.ID())), interlock.ErrInvalid)
		}
		wantErr(t, renewed.Extend(ctx, time.Hour), interlock.ErrInvalid)
		ok(t, renewed.Release())
		ok(t, lease.Release())
	}))
}

// Only the session that acquired a lease of ExpiresAfter can make a reader of it. Whoever asks for
// that elsewhere does not lose the lease.
func TestAnAdoptedWriterStaysAWriter(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.RWMutex("rw", interlock.ExpiresAfter(time.Minute)).Writer())
		adopted := errtest.Must(b.Adopt(ctx, "rw", lease.ID()))(t)
		wantErr(t, adopted.Downgrade(ctx), interlock.ErrInvalid)
		ok(t, adopted.Err())
		failIf(t, !adopted.Exclusive(), "it is a reader's")
		second := errtest.Must(a.Adopt(ctx, "rw", lease.ID()))(t)
		wantErr(t, lease.Downgrade(ctx), interlock.ErrInvalid) // another has it as a writer
		ok(t, second.Err())
		ok(t, adopted.Release())
	})
}

// A change that the backend was not asked for, since the context had ended, costs the lease none of its time, and is no
// outage.
func TestAnExtendWithoutTimeChangesNothing(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute)))
		late := lasting(t, 0)
		err := lease.Extend(late, time.Second)
		wantErr(t, err, context.DeadlineExceeded)
		failIf(t, errors.Is(err, interlock.ErrUnavailable), "%v", err)
		failIf(t, lease.Remaining() < 50*time.Second, "%v are left", lease.Remaining())
		ok(t, lease.Release())
	}))
}

// The end of the client ends a change that the backend does not answer, and that of the session loses what is changed.
func TestAChangeOfWhatIsOver(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		writer := acquire(t, a.RWMutex("rw").Writer())
		a.faults().Before("Shrink", 1).Refuse(driver.ErrSession)
		wantErr(t, writer.Downgrade(ctx), interlock.ErrLost)
		wantErr(t, writer.Err(), interlock.ErrLost)

		lease := acquire(t, b.Mutex("m", interlock.ExpiresAfter(time.Hour)))
		b.faults().Before("Keep", 0).Fail()
		changed := does(func() error { return lease.Extend(ctx, time.Hour) })
		time.Sleep(time.Second)
		ok(t, b.Close())
		wantErr(t, <-changed, interlock.ErrClosed)
	})
}
