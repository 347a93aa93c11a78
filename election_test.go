package interlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// observed begins to observe an election. What it returns ends that, and tells the values
// that were seen.
func observed(t *testing.T, e *interlock.Election) (end func() []string) {
	observe, stop := context.WithCancel(ctx)
	leaders := make(chan string, 100)
	go func() {
		defer close(leaders)
		for m, err := range e.Observe(observe) {
			errtest.Is(t, err, nil)
			leaders <- m.Note
		}
	}()
	synctest.Wait()
	return func() (seen []string) {
		synctest.Wait()
		stop()
		for l := range leaders {
			seen = append(seen, l)
		}
		return seen
	}
}

// Lead hands over cleanly when its function returns, and campaigns again after
// a loss, once its function has returned.
func TestLead(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		terms := 0
		own := errors.New("own")
		led := does(func() error {
			return a.Election("e", interlock.ReportDeath()).Lead(ctx, "a", func(held context.Context) error {
				if terms++; terms < 3 {
					<-held.Done()
					wantErr(t, context.Cause(held), interlock.ErrLost)
					return held.Err()
				}
				return own
			})
		})
		for range 2 {
			synctest.Wait()
			a.faults().Expire()
			time.Sleep(time.Second)
		}
		equal(t, <-led, own, "after %d terms", terms)
		equal(t, terms, 3, "terms")
		next := errtest.Must(b.Election("e", interlock.ReportDeath()).Campaign(ctx, "b"))(t)
		inherits(t, next, false)
		ok(t, next.Release())

		ending, cancel := context.WithCancel(ctx)
		led = does(func() error { return a.Election("e").Lead(ending, "a", untilDone) })
		cancel()
		wantErr(t, <-led, context.Canceled)

		// The loss of another lock is no loss of the leadership.
		ok(t, a.Mutex("m").Do(ctx, func(context.Context) error { return nil }))
		wantErr(t, a.Election("e").Lead(ctx, "a", func(context.Context) error { return interlock.ErrLost }), interlock.ErrLost)
	}))
}

// untilDone is work that ends with its context.
func untilDone(held context.Context) error {
	<-held.Done()
	return context.Cause(held)
}

// leads makes sure that everybody who asks is told so of the leader; "" is nobody.
func leads(t *testing.T, want string, members ...member) {
	t.Helper()
	for _, m := range members {
		switch got, err := m.Election("e").Leader(ctx); {
		case want == "":
			wantErr(t, err, interlock.ErrNoLeader)
		case err != nil || got.Note != want || got.ID == "":
			t.Fatalf("asked who leads: %+v, %v; want %q", got, err, want)
		}
	}
}

// The leader is asked with two exchanges, whoever leads.
func TestTheLeaderIsAskedOnce(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		leads(t, "", a, b)
		lease := errtest.Must(a.Election("e").Campaign(ctx, "first"))(t)
		waits := async(ctx, b.Election("e").Candidate("second"))
		before := b.Admin().Exchanges()
		leads(t, "first", b)
		equal(t, b.Admin().Exchanges()-before, 2, "exchanges")
		m := errtest.Must(b.Election("e").Leader(ctx))(t)
		failIf(t, !strings.HasPrefix(lease.ID(), m.ID) || m.Token != lease.Token() || m.Owner == "", "%+v leads with %s", m, lease.ID())
		ok(t, lease.Release())
		r := served(t, waits)
		leads(t, "second", a, b)
		ok(t, r.lease.Release())
		leads(t, "", a, b)
		_, err := a.Election("e//").Leader(ctx)
		wantErr(t, err, interlock.ErrInvalid)
	}))
}

// A leader changes its value: who observes is told, and who asks. The next leader has its own.
func TestALeaderChangesItsValue(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		seen := observed(t, b.Election("e"))
		ok(t, a.Election("e").Lead(ctx, "starting", func(held context.Context) error {
			synctest.Wait()
			leads(t, "starting", a, b)
			for _, value := range []string{"ready", "ready", "", "\xff\x00"} {
				a.faults().After("Swap", 1).Fail()
				ok(t, a.Election("e").SetValue(held, interlock.LeaseFrom(held), value))
				synctest.Wait()
				if value != "" {
					leads(t, value, a, b)
				}
			}
			return nil
		}))
		synctest.Wait()
		leads(t, "", a, b)
		next := errtest.Must(b.Election("e").Campaign(ctx, "next"))(t)
		synctest.Wait()
		leads(t, "next", a, b)
		ok(t, next.Release())
		got, want := seen(), []string{"", "starting", "ready", "", "\xff\x00", "", "next", ""}
		failIf(t, !slices.Equal(got, want), "observed %q, want %q", got, want)
	}))
}

// Only the leader changes its value. One that has lost its lease, and does not know it, changes
// nothing that anybody sees.
func TestOnlyTheLeaderChangesItsValue(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		d := wrapped{w.Driver(), func(s driver.Session) driver.Session { return deaf{s} }}
		c := client(t, d)
		a, b := member{c, d.Driver}, join(t, w)
		e, f := a.Election("e"), b.Election("e")
		old := errtest.Must(e.Campaign(ctx, "old"))(t)
		ok(t, b.Admin().Evict(ctx, "e", old.ID(), true))
		next := errtest.Must(f.Campaign(ctx, "next"))(t)
		ok(t, old.Err()) // it has not heard of it
		ok(t, e.SetValue(ctx, old, "late"))
		leads(t, "next", a, b)
		ok(t, f.SetValue(ctx, next, "next, ready"))
		wantErr(t, e.SetValue(ctx, old, "later"), interlock.ErrLost)
		leads(t, "next, ready", a, b)
		ok(t, next.Release())
		wantErr(t, f.SetValue(ctx, next, "released"), interlock.ErrReleased)
		wantErr(t, f.SetValue(ctx, next, "released"), interlock.ErrLost)

		mutex, other := acquire(t, a.Mutex("m")), acquire(t, a.Election("other").Candidate(""))
		for _, l := range []*interlock.Lease{nil, mutex, other, old} {
			wantErr(t, f.SetValue(ctx, l, "wrong"), interlock.ErrInvalid)
		}
		wantErr(t, a.Election("other").SetValue(ctx, other, strings.Repeat("x", interlock.MaxLeaderValue+1)), interlock.ErrInvalid)
		ok(t, a.Election("other").SetValue(ctx, other, strings.Repeat("x", interlock.MaxLeaderValue)))
		ok(t, other.Release())
		ok(t, mutex.Release())
	})
}

// deaf hears nothing of what others ask of it before its next heartbeat.
type deaf struct{ driver.Session }

func (deaf) Signals(ctx context.Context) (driver.Signal, error) {
	<-ctx.Done()
	return driver.Signal{}, ctx.Err()
}

// A change that cannot reach the backend ends with the lease, and says what the lease says.
func TestAChangeOfTheValueEndsWithTheLease(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, _ := pair(t)
		lease := errtest.Must(a.Election("e").Campaign(ctx, "old"))(t)
		a.faults().Cut()
		err := a.Election("e").SetValue(ctx, lease, "new")
		wantErr(t, err, interlock.ErrLost)
		equal(t, err.Error(), "interlock: set the value of e: "+lease.Err().Error(), "it says")
	})
}
