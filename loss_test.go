package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// However the backend fails the holder, the holder knows before anybody else
// can hold the lock.
func TestLossComesBeforeTheGainOfAnother(t *testing.T) {
	for name, fail := range map[string]func(*memlock.Faults){
		"every call hangs":                       func(f *memlock.Faults) { f.Before("", 0).Hang() },
		"every call hangs, whatever its context": func(f *memlock.Faults) { f.Before("Renew", 0).Stick(); f.Before("Leave", 0).Hang() },
		"every reply hangs":                      func(f *memlock.Faults) { f.After("", 0).Hang() },
		"every call fails":                       func(f *memlock.Faults) { f.Before("", 0).Fail() },
		"cut off":                                func(f *memlock.Faults) { f.Cut() },
		"renewals fail":                          func(f *memlock.Faults) { f.Before("Renew", 0).Fail() },
	} {
		simulatedAs(t, name, func(t *testing.T) {
			a, b := pair(t)
			lease := acquire(t, a.Mutex("m"))
			bound := bind(t, lease)
			time.Sleep(ttl) // some renewals
			ok(t, lease.Err())

			began := time.Now()
			fail(a.faults())
			next := async(ctx, b.Mutex("m"))
			<-bound.Done()
			within(t, began, ttl, "lost after")
			wantErr(t, context.Cause(bound), interlock.ErrLost)
			wantErr(t, lease.Err(), interlock.ErrLost)
			failIf(t, !ended(lease.Done()), "Done is open")
			told := time.Now()
			r := served(t, next)
			gap := r.at.Sub(told)
			failIf(t, gap < ttl/20, "the next one holds %v after the loss", gap)
			failIf(t, r.at.Sub(began) > 2*ttl, "the next one waited for %v", r.at.Sub(began))
			ok(t, r.lease.Release())
		})
	}
}

// A lease of a process that was stopped is judged at its next call, not when a
// timer gets round to it.
func TestAStoppedProcessIsToldAtItsNextCall(t *testing.T) {
	lost := func(so bool) error {
		if so {
			return interlock.ErrLost
		}
		return nil
	}
	for name, ask := range map[string]func(*interlock.Lease) error{
		"Err":       func(l *interlock.Lease) error { return l.Err() },
		"Release":   func(l *interlock.Lease) error { return l.Release() },
		"Downgrade": func(l *interlock.Lease) error { return l.Downgrade(ctx) },
		"Done":      func(l *interlock.Lease) error { return lost(ended(l.Done())) },
		"Remaining": func(l *interlock.Lease) error { return lost(l.Remaining() == 0) },
		"Bind": func(l *interlock.Lease) error {
			bound, free := l.Bind(ctx)
			defer free()
			return context.Cause(bound)
		},
		"Held": nil,
	} {
		for of, lock := range map[string]func(*interlock.Client) *interlock.Lock{
			"one": func(c *interlock.Client) *interlock.Lock { return c.RWMutex("rw").Writer() },
			"all": func(c *interlock.Client) *interlock.Lock {
				return interlock.All(c.Mutex("m"), c.RWMutex("rw").Writer())
			},
		} {
			simulatedAs(t, name+" of "+of, func(t *testing.T) {
				d := &stopped{Driver: memlock.New()}
				l := lock(client(t, d))
				lease := acquire(t, l)
				bound := bind(t, lease)
				d.jump(ttl)
				if ask == nil {
					holds(t, l, bound, false)
				} else {
					wantErr(t, ask(lease), interlock.ErrLost)
				}
				wantErr(t, lease.Err(), interlock.ErrLost) // and so is everybody
				wantErr(t, context.Cause(bound), interlock.ErrLost)
			})
		}
	}
}

// It is not told at its next call only: contexts end soon after the process
// goes on, though its timers have stood still.
func TestContextsEndSoonAfterASuspension(t *testing.T) {
	simulated(t, func(t *testing.T) {
		d := &stopped{Driver: memlock.New()}
		bound := bind(t, acquire(t, client(t, d).Mutex("m")))
		time.Sleep(time.Second)
		began := time.Now()
		d.jump(time.Hour)
		<-bound.Done()
		within(t, began, time.Second, "ended after")
	})
}

// A renewal that was under way while the deadline passed does not bring the
// lease back.
func TestALostLeaseStaysLost(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m"))
		hung := a.faults().After("Renew", 1).Stick()
		<-hung.Reached()
		a.faults().Before("Renew", 0).Hang()
		time.Sleep(ttl)
		wantErr(t, lease.Err(), interlock.ErrLost)
		hung.Deliver()
		synctest.Wait()
		wantErr(t, lease.Err(), interlock.ErrLost)
		wantErr(t, lease.Release(), interlock.ErrLost)
		wantErr(t, lease.Release(), interlock.ErrLost)
	}))
}

// The deadline counts from the proof that comes with the grant, or with a renewal, not from its arrival.
func TestTheDeadlineCountsFromTheProof(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		hung := a.faults().After("Join", 1).Hang()
		got := async(ctx, a.Mutex("m"))
		time.Sleep(3 * time.Second)
		hung.Deliver()
		lease := served(t, got).lease
		most := ttl - 3*time.Second
		failIf(t, lease.Remaining() >= most, "%v remain, at most %v were granted", lease.Remaining(), most)
		before := lease.Deadline()
		hung = a.faults().After("Renew", 1).Hang()
		<-hung.Reached()
		time.Sleep(2 * time.Second) // later, another renewal is under way
		hung.Deliver()
		synctest.Wait()
		left, most := lease.Remaining(), ttl-2*time.Second
		failIf(t, left >= most || lease.InDoubt(), "%v remain, at most %v were granted; in doubt %v", left, most, lease.InDoubt())
		failIf(t, !lease.Deadline().After(before), "the deadline %v did not move from %v", lease.Deadline(), before)
		ok(t, lease.Release())
	}))
}

// A grant whose news took longer than it lasts, or comes when its session is over, is not taken.
func TestAGrantThatComesTooLateIsNotTaken(t *testing.T) {
	for _, expires := range []bool{false, true} {
		for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}} {
			simulated(t, both(func(t *testing.T, a, b member) {
				hung := a.faults().After("Join", 1).Stick()
				got := async(ctx, a.Mutex("m", opts...))
				if expires { // its time has not run out
					a.faults().Expire()
					synctest.Wait()
				} else {
					time.Sleep(ttl + time.Second)
				}
				other := acquire(t, b.Mutex("m"))
				hung.Deliver()
				notYet(t, got, "acquired beside the holder")
				time.Sleep(2 * time.Second)
				ok(t, other.Release())
				turn(t, got)
			}))
		}
	}
}

// From the first failed renewal to the deadline a lease is in doubt.
func TestALeaseIsInDoubtFromTheFirstFailedRenewal(t *testing.T) {
	for name, fail := range map[string]func(*memlock.Faults){
		"renewal fails": func(f *memlock.Faults) { f.Before("Renew", 1).Fail() },
		"reply lost":    func(f *memlock.Faults) { f.After("Renew", 1).Fail() },
		"renewals hang": func(f *memlock.Faults) { // and the one beside the first, else the lease is renewed
			f.Before("Renew", 1).Hang()
			f.Before("Renew", 2).Hang()
		},
		"renewals stick": func(f *memlock.Faults) {
			for k := range 2 {
				time.AfterFunc(12*time.Second, f.Before("Renew", k+1).Stick().Deliver)
			}
		},
	} {
		simulatedAs(t, name, alone(func(t *testing.T, a member) {
			lease := acquire(t, a.Mutex("m"))
			fail(a.faults())
			for !lease.InDoubt() {
				fatalIf(t, lease.Err() != nil, "lost without being in doubt before")
				time.Sleep(time.Second / 10)
			}
			for lease.InDoubt() {
				time.Sleep(time.Second / 10)
			}
			ok(t, lease.Err()) // the next renewal succeeded
			ok(t, lease.Release())
			failIf(t, lease.InDoubt(), "in doubt after the end")
		}))
	}
}

// The signal that a connection is in doubt does not wait for the heartbeat.
func TestACutConnectionIsInDoubtAtOnce(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		lease := acquire(t, a.Mutex("m"))
		a.faults().Cut()
		synctest.Wait()
		failIf(t, !lease.InDoubt(), "not in doubt")
		a.faults().Heal()
		time.Sleep(ttl / 2)
		ok(t, lease.Err())
		failIf(t, lease.InDoubt(), "in doubt still")
	})
}

// A log that blocks delays no loss.
func TestABlockedObserverDelaysNoLoss(t *testing.T) {
	simulated(t, func(t *testing.T) {
		release := make(chan struct{})
		a := join(t, memlock.NewWorld(), interlock.Observe(func(_ context.Context, e interlock.Event) {
			if e.Kind == interlock.EventLost || e.Kind == interlock.EventInDoubt {
				<-release
			}
		}))
		first, second := acquire(t, a.Mutex("1")), acquire(t, a.Mutex("2"))
		a.faults().Before("Renew", 0).Fail()
		time.Sleep(ttl)
		synctest.Wait()
		for _, l := range []*interlock.Lease{first, second} {
			failIf(t, !ended(l.Done()), "not told")
		}
		close(release)
	})
}

// A loss says in one line what happened, so that an operator can tell a process that stood
// still from a backend that did not answer.
func TestALossSaysWhatHappened(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(d *stopped)
		old  time.Duration
		want string
	}{
		"the backend fails": {
			func(d *stopped) { d.Faults().Before("Renew", 0).Fail() }, 0,
			"the last answer came 14s ago; the backend said: memlock: failed on demand",
		},
		"the backend does not answer": {
			func(d *stopped) { d.Faults().Before("Renew", 0).Hang() }, 0,
			"the last answer came 14s ago; the backend did not answer within 5s: context deadline exceeded",
		},
		"the call does not return": {
			func(d *stopped) { d.Faults().Before("Renew", 0).Stick() }, 0,
			"the last answer came 14s ago; the backend did not answer within 5s: context deadline exceeded",
		},
		"this process stood still": {
			func(d *stopped) { time.AfterFunc(ttl/5, func() { d.jump(time.Hour) }) }, 0,
			"the last answer came 1h0m[34](.[0-9])?s ago; this process stood still for (1h0m0s|59m59.[0-9]s)",
		},
		"the backend fails, long after a stall": {
			func(d *stopped) {
				d.jump(ttl / 5)
				time.Sleep(2 * ttl)
				d.Faults().Before("Renew", 0).Fail()
			}, 0,
			"the last answer came 11s ago; the backend said: memlock: failed on demand",
		},
		"answers prove little": {
			func(d *stopped) {}, 13 * time.Second,
			"the last answer came 1s ago, and proved nothing newer than 13s before",
		},
	} {
		simulatedAs(t, name, func(t *testing.T) {
			tt := c
			var r record
			d := &stopped{Driver: memlock.New()}
			c := client(t, &slack{Driver: d, old: tt.old, always: true}, r.observe())
			lease := acquire(t, c.Mutex("m"))
			time.Sleep(ttl / 3) // a renewal
			synctest.Wait()
			tt.fail(d)
			<-lease.Done()
			synctest.Wait()
			want := regexp.MustCompile("^lease lost: it was not renewed in time: " + tt.want + "$")
			got := lease.Err().Error()
			failIf(t, !want.MatchString(got), "%s\nwant %s", got, want)
			told := r.of(interlock.EventLost)
			failIf(t, len(told) != 1 || "lease lost: "+told[0].Err.Error() != lease.Err().Error(), "the events say %v", told)
			d.Faults().Clear()
		})
	}
}

// The error of Do is one line, and says once that the lock is lost, also if the function has
// returned the cause of its context; what it has returned besides stays.
func TestDoSaysOnceThatTheLockIsLost(t *testing.T) {
	own := errors.New("half written")
	for name, f := range map[string]func(context.Context) error{
		"the cause": func(ctx context.Context) error { return context.Cause(ctx) },
		"wrapped":   func(ctx context.Context) error { return fmt.Errorf("write: %w", context.Cause(ctx)) },
		"another":   func(context.Context) error { return own },
		"none":      func(context.Context) error { return nil },
	} {
		simulated(t, both(func(t *testing.T, a, b member) {
			err := a.Mutex("m").Do(ctx, func(ctx context.Context) error {
				lease := interlock.LeaseFrom(ctx)
				ok(t, b.Admin().Evict(context.Background(), "m", lease.ID(), false))
				<-ctx.Done()
				return f(ctx)
			})
			wantErr(t, err, interlock.ErrLost)
			wantErr(t, err, interlock.ErrEvicted)
			text := err.Error()
			failIf(t, strings.Count(text, "lease lost: evicted") != 1 || strings.Contains(text, "\n"), "%s: %q", name, text)
			equal(t, errors.Is(err, own), name == "another", "%s: %v is its own", name, err)
			equal(t, b.Mutex("m").Do(ctx, func(context.Context) error { return own }), own, "the error of Do")
		}))
	}
}

// What has a fixed end was not to be renewed.
func TestALeaseOfHoldSaysThatItsTimeIsOver(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute)))
		<-lease.Done()
		wantErr(t, lease.Extend(ctx, time.Hour), interlock.ErrLost)
		equal(t, lease.Err().Error(), "lease lost: its time is over", "Err says")
		equal(t, lease.Release().Error(), "interlock: release m: lease lost: its time is over", "Release says")
	}))
}

// What another has done with a lease of ExpiresAfter is not said to be a fault of the backend, nor of a
// renewal, which there is none of.
func TestALeaseOfHoldSaysThatAnotherHasEndedIt(t *testing.T) {
	const want = "lease lost: another has ended it, or the backend has forgotten it"
	for name, find := range map[string]func(*interlock.Lease) error{
		"heartbeat": func(l *interlock.Lease) error { <-l.Done(); return l.Err() },
		"Extend":    func(l *interlock.Lease) error { return errors.Unwrap(l.Extend(ctx, time.Hour)) },
		"Release":   func(l *interlock.Lease) error { return errors.Unwrap(l.Release()) },
	} {
		simulated(t, both(func(t *testing.T, a, b member) {
			lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Hour)))
			ok(t, errtest.Must(b.Adopt(ctx, "m", lease.ID()))(t).Release())
			got := find(lease)
			failIf(t, got.Error() != want, "%s: %v", name, got)
		}))
	}
}
