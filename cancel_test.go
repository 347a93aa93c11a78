package interlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// kinds are the ways to acquire, each with its own path.
func kinds(c *interlock.Client) map[string]*interlock.Lock {
	return map[string]*interlock.Lock{
		"mutex":     c.Mutex("mutex"),
		"strict":    c.Mutex("strict", interlock.StrictOrder()),
		"sticky":    c.Mutex("sticky", interlock.Sticky()),
		"hold":      c.Mutex("hold", interlock.ExpiresAfter(time.Minute)),
		"at least":  c.Mutex("at least", interlock.AtLeast(time.Nanosecond)),
		"reader":    c.RWMutex("reader").Reader(),
		"writer":    c.RWMutex("writer").Writer(),
		"semaphore": c.Semaphore("semaphore", 2, interlock.Weight(2)),
		"candidate": c.Election("election").Candidate("me"),
	}
}

func TestAContextThatHasEndedNeverAcquires(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		own := errors.New("own")
		over, cancel := context.WithCancelCause(ctx)
		cancel(own)
		for name, l := range kinds(a.Client) {
			for range 100 {
				wantErr(t, errOf(l.Acquire(over)), own)
				wantErr(t, errOf(l.TryAcquire(over)), own)
				err := l.Do(over, func(context.Context) error { t.Error(name, "runs"); return nil })
				wantErr(t, err, own)
			}
		}
	}))
}

// rival is what keeps out a lock of that kind: of a reader it is the writer.
func rival(m member, kind string) *interlock.Lock {
	if kind == "reader" {
		return m.RWMutex(kind).Writer()
	}
	return kinds(m.Client)[kind]
}

// Whoever gives up has left the line when Acquire returns: nobody is refused because of it, and no list shows
// it. A backend that does not answer is not waited for.
func TestWhoGivesUpHasLeftWhenAcquireReturns(t *testing.T) {
	for _, away := range []bool{false, true} {
		simulated(t, both(func(t *testing.T, a, b member) {
			locks := kinds(b.Client)
			for name := range locks {
				holder := acquire(t, rival(a, name))
				waiting, cancel := context.WithCancel(ctx)
				waits := async(waiting, locks[name])
				notYet(t, waits, name+" does not wait")
				hung := b.faults().Before("Leave", 1).Hang()
				began := time.Now()
				cancel()
				r, done := got(waits)
				if !away {
					hung.Deliver()
				}
				if done {
					t.Errorf("%s: Acquire returns before its place is left", name)
				} else {
					r = <-waits
				}
				wantErr(t, r.err, context.Canceled)
				took := r.at.Sub(began)
				failIf(t, away != (took > 0) || took > time.Second, "%s: Acquire returns after %v, with the backend away: %v", name, took, away)
				if !away {
					for q, err := range a.Admin().Queues(ctx, "") {
						ok(t, err)
						failIf(t, q.Name == locks[name].Name() && len(q.Holders)+len(q.Waiters) != 1, "%s: beside the holder are %+v", name, q.Waiters)
					}
				}
				hung.Deliver()
				ok(t, holder.Release())
				synctest.Wait()
			}
			time.Sleep(2 * ttl)
		}))
	}
}

// Whichever call of the acquire is under way when its context ends: nothing
// stands afterwards, and the next one gets the lock.
func TestAnAcquireCanBeCancelledAtEveryPoint(t *testing.T) {
	for _, method := range []string{"Join", "Await"} {
		for when, at := range sides {
			for _, late := range []string{"delivered", "lost"} {
				simulatedAs(t, method+" "+when+" "+late, both(func(t *testing.T, a, b member) {
					for name, l := range kinds(a.Client) {
						other := rival(b, name)
						var holder *interlock.Lease
						if method == "Await" {
							holder = acquire(t, other)
						}
						hung := at(a.faults(), method, 1).Hang()
						waiting, cancel := context.WithCancel(ctx)
						waits := async(waiting, l)
						if holder != nil {
							ok(t, holder.Release())
						}
						<-hung.Reached()
						cancel()
						wantErr(t, (<-waits).err, context.Canceled)
						synctest.Wait()
						if late == "delivered" {
							hung.Deliver()
						} else {
							hung.Lose()
						}
						ok(t, acquire(t, other).Release())
						time.Sleep(2 * ttl)
					}
				}))
			}
		}
	}
}

// A driver of a line that gives up passes its place at the backend on to the
// goroutine behind it, before clients that came later.
func TestACancelledDriverPassesItsPlaceOn(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b, c := trio(t)
		holder := acquire(t, c.Mutex("m"))
		first, cancel := context.WithCancel(ctx)
		drives := async(first, a.Mutex("m"))
		behind := async(ctx, a.Mutex("m"))
		remote := async(ctx, b.Mutex("m"))
		cancel()
		wantErr(t, (<-drives).err, context.Canceled)
		synctest.Wait()
		ok(t, holder.Release())
		r := now(t, behind, "the place was lost")
		notYet(t, remote, "two holders")
		ok(t, r.lease.Release())
		turn(t, remote)
		nothingLeft(t, a, b, c)
	})
}

func TestTryAcquireMakesOneBoundedTry(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		for name, l := range kinds(a.Client) {
			holder := acquire(t, rival(b, name))
			began, exchanges := time.Now(), a.Admin().Exchanges()
			wantErr(t, errOf(l.TryAcquire(ctx)), interlock.ErrBusy)
			wantErr(t, errOf(l.With(interlock.Wait(0)).Acquire(ctx)), interlock.ErrBusy)
			equal(t, time.Since(began), 0, "%s: busy after", name)
			n := a.Admin().Exchanges() - exchanges
			failIf(t, n > 2, "%s: %d exchanges for two tries", name, n)
			ok(t, holder.Release())
		}
		a.faults().Before("Join", 0).Fail()
		wantErr(t, errOf(a.Mutex("fails").TryAcquire(ctx)), memlock.ErrFailed)
		a.faults().Clear()
		a.faults().Before("Join", 0).Hang()
		began := time.Now()
		wantErr(t, errOf(a.Mutex("hangs").TryAcquire(ctx)), context.DeadlineExceeded)
		within(t, began, ttl/2, "tried for")
		a.faults().Clear()
		time.Sleep(3 * ttl)
	}))
}

// A try does not stand in line, neither at the backend nor in the process.
func TestTryAcquireDoesNotWaitInTheProcess(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		holder := acquire(t, b.RWMutex("rw").Writer())
		waits := async(ctx, a.RWMutex("rw").Reader())
		wantErr(t, errOf(a.RWMutex("rw").Reader().TryAcquire(ctx)), interlock.ErrBusy)
		ok(t, holder.Release())
		r := served(t, waits)
		ok(t, errtest.Must(a.RWMutex("rw").Reader().TryAcquire(ctx))(t).Release())
		ok(t, r.lease.Release())
	}))
}

func TestWaitBoundsTheWaitAlone(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		holder := acquire(t, a.Mutex("m"))
		began := time.Now()
		wantErr(t, errOf(b.Mutex("m", interlock.Wait(time.Second)).Acquire(ctx)), interlock.ErrBusy)
		equal(t, time.Since(began), time.Second, "busy after")
		ok(t, holder.Release())
		ok(t, b.Mutex("m", interlock.Wait(time.Second)).Do(ctx, func(held context.Context) error {
			time.Sleep(time.Minute)
			return held.Err()
		}))
	}))
}

// Acquire goes on while the backend cannot be reached; the error tells why it
// was in vain.
func TestAcquireGoesOnUntilItsContextEnds(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		a.faults().Before("Join", 0).Fail()
		bounded := lasting(t, time.Hour)
		err := errOf(a.Mutex("m").Acquire(bounded))
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, memlock.ErrFailed)
		waits := async(ctx, a.Mutex("m"))
		time.Sleep(time.Minute)
		a.faults().Clear()
		turn(t, waits)
	}))
}

func TestOpenFailsAtOnce(t *testing.T) {
	simulated(t, func(t *testing.T) {
		d := memlock.New()
		d.Faults().Cut()
		began := time.Now()
		wantErr(t, errOf(interlock.New(ctx, d)), memlock.ErrCut)
		equal(t, time.Since(began), 0, "failed after")
		d.Faults().Heal()
		d.Faults().Before("Open", 1).Hang()
		wantErr(t, errOf(interlock.New(ctx, d)), context.DeadlineExceeded)
		within(t, began, ttl, "failed after")
		ok(t, d.Close())
	})
}

// The place of a try is not passed on: whoever waits behind it does not want to be told that
// the lock is busy.
func TestATryThatGivesUpLeavesNoTryToTheNext(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		holder := acquire(t, b.Mutex("m"))
		join := a.faults().Before("Join", 1).Hang()
		trying, cancel := context.WithCancel(ctx)
		tries := begun(trying, a.Mutex("m").TryAcquire)
		<-join.Reached()
		behind := async(ctx, a.Mutex("m"))
		cancel()
		wantErr(t, (<-tries).err, context.Canceled)
		notYet(t, behind, "it does not wait")
		join.Lose()
		ok(t, holder.Release())
		turn(t, behind)
	}))
}
