package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
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
			bound, cancel := lease.Bind(ctx)
			defer cancel()
			time.Sleep(ttl) // some renewals
			ok(t, lease.Err())

			began := time.Now()
			fail(a.faults())
			next := async(ctx, b.Mutex("m"))
			<-bound.Done()
			if lost := time.Since(began); lost > ttl {
				t.Errorf("lost after %v", lost)
			}
			wantErr(t, context.Cause(bound), interlock.ErrLost)
			wantErr(t, lease.Err(), interlock.ErrLost)
			if !ended(lease.Done()) {
				t.Error("Done is open")
			}
			told := time.Now()
			r := served(t, next)
			if gap := r.at.Sub(told); gap < ttl/20 {
				t.Errorf("the next one holds %v after the loss", gap)
			}
			if r.at.Sub(began) > 2*ttl {
				t.Errorf("the next one waited for %v", r.at.Sub(began))
			}
			ok(t, r.lease.Release())
		})
	}
}

// A lease of a process that was stopped is judged at its next call, not when a
// timer gets round to it.
func TestAStoppedProcessIsToldAtItsNextCall(t *testing.T) {
	for name, ask := range map[string]func(*interlock.Lease) error{
		"Err":       func(l *interlock.Lease) error { return l.Err() },
		"Release":   func(l *interlock.Lease) error { return l.Release() },
		"Downgrade": func(l *interlock.Lease) error { return l.Downgrade(ctx) },
		"Done": func(l *interlock.Lease) error {
			if ended(l.Done()) {
				return interlock.ErrLost
			}
			return nil
		},
		"Remaining": func(l *interlock.Lease) error {
			if l.Remaining() == 0 {
				return interlock.ErrLost
			}
			return nil
		},
		"Bind": func(l *interlock.Lease) error {
			bound, cancel := l.Bind(ctx)
			defer cancel()
			return context.Cause(bound)
		},
		"Held": func(l *interlock.Lease) error { return nil },
	} {
		simulatedAs(t, name, func(t *testing.T) {
			d := &stopped{Driver: memlock.New()}
			c := errtest.Must(interlock.New(ctx, d))(t)
			defer c.Close()
			l := c.RWMutex("rw").Writer()
			lease := acquire(t, l)
			bound, cancel := lease.Bind(ctx)
			defer cancel()
			d.jump(ttl)
			if name == "Held" {
				if _, held := l.Held(bound); held {
					t.Error("held")
				}
				return
			}
			wantErr(t, ask(lease), interlock.ErrLost)
			wantErr(t, lease.Err(), interlock.ErrLost) // and so is everybody
			wantErr(t, context.Cause(bound), interlock.ErrLost)
		})
	}
}

// It is not told at its next call only: contexts end soon after the process
// goes on, though its timers have stood still.
func TestContextsEndSoonAfterASuspension(t *testing.T) {
	simulated(t, func(t *testing.T) {
		d := &stopped{Driver: memlock.New()}
		c := errtest.Must(interlock.New(ctx, d))(t)
		defer c.Close()
		lease := acquire(t, c.Mutex("m"))
		bound, cancel := lease.Bind(ctx)
		defer cancel()
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

// The deadline counts from the proof that comes with the grant, not from its
// arrival.
func TestTheDeadlineCountsFromTheProof(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		hung := a.faults().After("Join", 1).Hang()
		got := async(ctx, a.Mutex("m"))
		<-hung.Reached()
		time.Sleep(3 * time.Second)
		hung.Deliver()
		r := served(t, got)
		if left, most := r.lease.Remaining(), ttl-3*time.Second; left >= most {
			t.Errorf("%v remain, at most %v were granted", left, most)
		}
		before := r.lease.Deadline()
		time.Sleep(ttl)
		ok(t, r.lease.Err())
		if after := r.lease.Deadline(); !after.After(before) {
			t.Errorf("the deadline %v did not move from %v", after, before)
		}
		ok(t, r.lease.Release())
	}))
}

// So it does with every renewal.
func TestARenewalCountsFromItsProof(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m"))
		hung := a.faults().After("Renew", 1).Hang()
		<-hung.Reached()
		time.Sleep(2 * time.Second) // later, another renewal is under way
		hung.Deliver()
		synctest.Wait()
		if left, most := lease.Remaining(), ttl-2*time.Second; left >= most || lease.InDoubt() {
			t.Errorf("%v remain, at most %v were granted; in doubt %v", left, most, lease.InDoubt())
		}
		ok(t, lease.Release())
	}))
}

// An answer that comes after the next renewal was due counts, and that one goes beside it. So a lease is kept though each
// answer takes more than a third of the TTL.
func TestALeaseIsKeptThoughEachRenewalIsAnsweredLate(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m"))
		end := make(chan struct{})
		var late sync.WaitGroup
		defer late.Wait()
		defer close(end)
		for k := range 40 {
			hung := a.faults().After("Renew", k+1).Hang()
			late.Go(func() {
				select {
				case <-hung.Reached():
					time.Sleep(2 * ttl / 5)
					hung.Deliver()
				case <-end:
				}
			})
		}
		time.Sleep(5 * ttl)
		ok(t, lease.Err())
		if left := a.faults().Waiting(); left == 0 || left == 40 {
			t.Errorf("%d of 40 renewals were answered in time", left)
		}
		ok(t, lease.Release())
	}))
}

// A grant whose news took longer than it lasts is not taken.
func TestAGrantThatComesTooLateIsNotTaken(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		hung := a.faults().After("Join", 1).Stick()
		got := async(ctx, a.Mutex("m", interlock.StrictOrder()))
		<-hung.Reached()
		time.Sleep(ttl + time.Second)
		other := acquire(t, b.Mutex("m"))
		hung.Deliver()
		synctest.Wait()
		select {
		case r := <-got:
			t.Fatalf("acquired beside the holder: %+v", r)
		default:
		}
		ok(t, other.Release())
		turn(t, got)
	}))
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
				if lease.Err() != nil {
					t.Fatal("lost without being in doubt before")
				}
				time.Sleep(time.Second / 10)
			}
			for lease.InDoubt() {
				time.Sleep(time.Second / 10)
			}
			ok(t, lease.Err()) // the next renewal succeeded
			ok(t, lease.Release())
			if lease.InDoubt() {
				t.Error("in doubt after the end")
			}
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
		if !lease.InDoubt() {
			t.Error("not in doubt")
		}
		a.faults().Heal()
		time.Sleep(ttl / 2)
		ok(t, lease.Err())
		if lease.InDoubt() {
			t.Error("in doubt still")
		}
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
			if !ended(l.Done()) {
				t.Error("not told")
			}
		}
		close(release)
	})
}

// What is lost passes on as soon as its holder has acknowledged the loss.
func TestALossThatIsAcknowledgedPassesTheLockOn(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		err := a.Mutex("m").Do(ctx, func(held context.Context) error {
			a.faults().Before("Renew", 0).Fail()
			<-held.Done()
			return nil
		})
		wantErr(t, err, interlock.ErrLost)
		synctest.Wait()
		ok(t, errtest.Must(b.Mutex("m").TryAcquire(ctx))(t).Release())
	}))
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
			var told []error
			var mu sync.Mutex
			d := &stopped{Driver: memlock.New()}
			s := &slack{Driver: d, old: tt.old, always: true}
			c, err := interlock.New(ctx, s, interlock.Observe(func(_ context.Context, e interlock.Event) {
				if e.Kind == interlock.EventLost {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, e.Err)
				}
			}))
			ok(t, err)
			defer c.Close()
			lease := acquire(t, c.Mutex("m"))
			time.Sleep(ttl / 3) // a renewal
			synctest.Wait()
			tt.fail(d)
			<-lease.Done()
			synctest.Wait()
			want := regexp.MustCompile("^lease lost: it was not renewed in time: " + tt.want + "$")
			if got := lease.Err().Error(); !want.MatchString(got) {
				t.Errorf("%s\nwant %s", got, want)
			}
			if len(told) != 1 || "lease lost: "+told[0].Error() != lease.Err().Error() {
				t.Errorf("the event says %v", told)
			}
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
			if text := err.Error(); strings.Count(text, "lease lost: evicted") != 1 || strings.Contains(text, "\n") {
				t.Errorf("%s: %q", name, text)
			}
			if is := errors.Is(err, own); is != (name == "another") {
				t.Errorf("%s: %v", name, err)
			}
			if err := b.Mutex("m").Do(ctx, func(context.Context) error { return own }); err != own {
				t.Errorf("got %v, want the function's own error", err)
			}
		}))
	}
}

// What has a fixed end was not to be renewed.
func TestALeaseOfHoldSaysThatItsTimeIsOver(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute)))
		<-lease.Done()
		wantErr(t, lease.Extend(ctx, time.Hour), interlock.ErrLost)
		if got := lease.Err().Error(); got != "lease lost: its time is over" {
			t.Error(got)
		}
		if got := lease.Release().Error(); got != "interlock: release m: lease lost: its time is over" {
			t.Error(got)
		}
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
			if got := find(lease); got.Error() != want {
				t.Errorf("%s: %v", name, got)
			}
		}))
	}
}
