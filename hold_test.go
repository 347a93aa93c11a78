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
			if got := lease.Remaining(); got != usable {
				t.Errorf("of ExpiresAfter(%v) %v can be used, want %v", hold, got, usable)
			}
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
	for name, end := range map[string]func(t *testing.T, b member, id string) (told time.Duration){
		"released elsewhere": func(t *testing.T, b member, id string) time.Duration {
			ok(t, errtest.Must(b.Adopt(ctx, "m", id))(t).Release())
			return ttl / 3
		},
		"evicted": func(t *testing.T, b member, id string) time.Duration {
			ok(t, b.Admin().Evict(ctx, "m", id, false))
			return ttl / 3
		},
	} {
		for _, replaced := range []bool{false, true} {
			simulatedAs(t, name, both(func(t *testing.T, a, b member) {
				lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Hour)))
				if replaced {
					a.faults().Expire()
					time.Sleep(time.Second)
				}
				began := time.Now()
				told := end(t, b, lease.ID())
				<-lease.Done()
				within(t, began, told, "told after")
				wantErr(t, lease.Release(), interlock.ErrLost)
				ok(t, errtest.Must(b.Mutex("m", interlock.Wait(time.Second)).Acquire(ctx))(t).Release())
			}))
		}
	}
}

// When it is not known whether a shortening took effect, the lease ends at the
// earlier time.
func TestAnAmbiguousExtendCountsAsTheEarlierEnd(t *testing.T) {
	for name, point := range map[string]func(*memlock.Faults) memlock.Point{
		"after":  func(f *memlock.Faults) memlock.Point { return f.After("Keep", 0) },
		"before": func(f *memlock.Faults) memlock.Point { return f.Before("Keep", 0) },
	} {
		simulatedAs(t, name, func(t *testing.T) {
			a, b := pair(t)
			lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Hour)))
			point(a.faults()).Fail()
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			wantErr(t, lease.Extend(short, 10*time.Second), context.DeadlineExceeded)
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
			if again.Token() != lease.Token() {
				t.Fatalf("token %d, want %d", again.Token(), lease.Token())
			}
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
		adopted := make(chan *interlock.Lease, 2)
		for range 2 {
			go func() {
				l, err := b.Adopt(ctx, "m", lease.ID())
				if err != nil {
					t.Error(err)
				}
				adopted <- l
			}()
		}
		synctest.Wait()
		slow.Deliver()
		first, second := <-adopted, <-adopted
		ok(t, first.Err())
		ok(t, second.Err())
		ok(t, first.Release())
		wantErr(t, second.Err(), interlock.ErrLost) // at once: they are one ticket
		wantErr(t, second.Release(), interlock.ErrLost)
		nothingLeft(t, b)
	})
}

// Releasing a lease of a long time does not wait for its end if the backend is away, and Close does not
// wait for what could not be given back.
func TestReleasingAHoldIsTriedForATTL(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Hour)))
		a.faults().Before("Leave", 0).Fail()
		began := time.Now()
		wantErr(t, lease.Release(), memlock.ErrFailed)
		within(t, began, 2*ttl, "tried for")
		began = time.Now()
		ok(t, a.Close())
		within(t, began, time.Second, "closed after")
	})
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
		if d := time.Since(began); d != time.Minute {
			t.Errorf("kept out for %v", d)
		}
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
		if d := time.Since(began); d != time.Minute {
			t.Errorf("kept out for %v after Close", d)
		}
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
			if left := lease.Deadline().Sub(began); left >= ttl {
				t.Errorf("the first deadline comes after %v, although the lease is renewed", left)
			}
			bound, cancel := lease.Bind(ctx)
			next := async(ctx, b.Mutex("m"))
			time.Sleep(long - ttl/2)
			ok(t, lease.Err())
			if left := lease.Remaining(); left != ttl/2 {
				t.Errorf("%v are left before the end of AtMost", left)
			}
			<-bound.Done()
			if d := time.Since(began); d != long {
				t.Errorf("the context ends after %v", d)
			}
			wantErr(t, context.Cause(bound), interlock.ErrLost)
			if text := lease.Err().Error(); !strings.Contains(text, "held for 10m0s, as long as AtMost allows") {
				t.Error(text)
			}
			time.Sleep(time.Second)
			if len(next) > 0 {
				t.Error("the next one holds before this one has released, or a TTL is over")
			}
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
		if want := []string{"a", "b", "a", "b"}; !slices.Equal(led, want) {
			t.Errorf("led: %q, want %q", led, want)
		}
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
		t.Run(name, func(t *testing.T) {
			simulated(t, both(func(t *testing.T, a, b member) {
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
							if why := context.Cause(ctx).Error(); !strings.Contains(why, c.why) {
								t.Error(why)
							}
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
				if want := 2*ttl/3 + c.after; lost < want-time.Second || lost > want+time.Second {
					t.Errorf("it is lost after %v, want %v", lost, want)
				}
				switch {
				case c.stops && next != lost:
					t.Errorf("the next one leads %v after one that has stopped", next-lost)
				case !c.stops && (next <= lost || next > lost+ttl):
					t.Errorf("the next one leads %v after one that goes on", next-lost)
				}
				if terms != 2 {
					t.Errorf("it has led %d times, want twice", terms)
				}
			}))
		})
	}
}

// Promise: a candidate that is not healthy stands in nobody's way, and its Lead ends with its context.
func TestAnUnhealthyCandidateDoesNotStand(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		ctx, end := context.WithTimeout(ctx, 10*ttl)
		defer end()
		led := make(chan error, 1)
		go func() {
			led <- a.Election("e").LeadWhile(ctx, "a", func(context.Context) error { return errors.New("not yet") }, func(context.Context) error {
				t.Error("it leads")
				return nil
			})
		}()
		time.Sleep(5 * ttl)
		q := errtest.Must(b.Admin().Queue(ctx, "e"))(t)
		if n := len(q.Holders) + len(q.Waiters); n > 0 {
			t.Errorf("%d stand", n)
		}
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
		synctest.Wait()
		a.faults().Expire()
		lost.Lose()
		began := time.Now()
		r := served(t, got)
		if d := r.at.Sub(began); d > 10*ttl {
			t.Errorf("it has waited for %v", d)
		}
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
		synctest.Wait()
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
		if mine, theirs := adopted.Remaining(), lease.Remaining(); mine > theirs {
			t.Errorf("adopted for %v, held for %v", mine, theirs)
		}
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
		b := errtest.Must(interlock.New(ctx, d))(t)
		defer b.Close()
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
			if d := time.Since(began); d != time.Minute {
				t.Errorf("kept out for %v", d)
			}
			ok(t, next.Release())
		}))
	}
}

// Of two that extend a lease at once, the one that the backend did last counts.
func TestTwoThatExtendAtOnceAgreeWithTheBackend(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute)))
		slow := a.faults().After("Keep", 1).Hang()
		var both sync.WaitGroup
		extend := func(d time.Duration) {
			both.Go(func() {
				errtest.Is(t, lease.Extend(ctx, d), nil)
			})
			synctest.Wait()
		}
		extend(time.Hour)
		<-slow.Reached()
		extend(20 * time.Second)
		time.Sleep(time.Second)
		slow.Deliver()
		both.Wait()
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
		if !adopted.Exclusive() {
			t.Error("it is a reader's")
		}
		second := errtest.Must(a.Adopt(ctx, "rw", lease.ID()))(t)
		wantErr(t, lease.Downgrade(ctx), interlock.ErrInvalid) // another has it as a writer
		ok(t, second.Err())
		ok(t, adopted.Release())
	})
}
