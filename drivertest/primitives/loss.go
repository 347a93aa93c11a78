package primitives

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// cutOff opens a client that is cut off from its backend while off is set.
func (t *trial) cutOff(off *atomic.Bool, opts ...interlock.ClientOption) *interlock.Client {
	t.Helper()
	d, err := t.world.Open(t.Ctx)
	t.OK(err, "open a driver")
	return t.over(suite.Hooked(d, func(ctx context.Context, method string, call func(context.Context) error) error {
		if off.Load() {
			switch method {
			case "Renew":
				<-ctx.Done() // no answer comes
				return ctx.Err()
			case "Open", "Join", "Leave":
				return errReply
			case "Close":
				return nil // it runs out
			}
		}
		return call(ctx)
	}), t.TTL, opts...)
}

var _ = rules.Add(rule{Name: "CutOff", Says: []string{
	"A holder that cannot reach its backend is told that its lease is in doubt, and that it is lost before another holds.",
}}, func(t *trial) {
	off := &atomic.Bool{}
	events, told := told(interlock.EventInDoubt, interlock.EventLost)
	a := t.cutOff(off, told)
	b := t.beating()
	lease := t.acquire(a.Mutex("m", interlock.ReportDeath()))
	ctx, cancel := lease.Bind(t.Ctx)
	defer cancel()
	next := t.async(b.Mutex("m", interlock.ReportDeath()))
	t.behind(next, b, "m")
	off.Store(true)
	got := t.get(next, "the next holder is served when the one that is cut off has run out")
	t.FatalIf(lease.Err() == nil,
		"the next holder is served while the one that is cut off has %v left", lease.Remaining())
	wait(t, ctx.Done(), "the context of who is cut off ends")
	t.Is(context.Cause(ctx), interlock.ErrLost, "the context of who is cut off")
	t.FatalIf(!got.Inherited(), "the next holder does not inherit from one that was cut off")
	t.Is(lease.Release(), interlock.ErrLost, "release of a lease that is lost")
	if kind := wait(t, events, "the event that a lease is in doubt").Kind; kind != interlock.EventInDoubt {
		t.Slow("the first event is %s, not that the lease is in doubt", kind) // which it was for a sixth of the TTL
	}
	for wait(t, events, "the event that a lease is lost").Kind != interlock.EventLost {
	}
	off.Store(false)
	t.release(got)
	t.release(t.acquire(a.Mutex("m"))) // it comes back
})

// Exact: the reason is that of this rule.
var _ = rules.Add(rule{Name: "Retrying", Exact: true, Says: []string{
	"An Acquire whose try fails says so by an event, with the name and the reason, and goes on until it has the lock.",
}}, func(t *trial) {
	off := &atomic.Bool{}
	tries, told := told(interlock.EventRetry)
	a := t.cutOff(off, told)
	off.Store(true)
	next := t.async(a.Mutex("m"))
	for range 2 {
		e := wait(t, tries, "the event that a try has failed")
		t.Is(e.Err, errReply, "the reason of a try that failed")
		t.FatalIf(e.Name != "m", "the event of a try of m names %q", e.Name)
	}
	notYet(t, next, "an Acquire has ended with its try")
	off.Store(false)
	t.release(t.get(next, "an Acquire whose tries failed has the lock when the backend answers again"))
})

// healthy looks at leases all the time, while nothing is wrong, and then while the
// backend pauses for a fifth of the TTL, at another phase of the heartbeat each
// time. What a pause of this machine does to a lease proves nothing: a second
// client's exchanges are watched for such.
var _ = rules.Add(rule{Name: "Healthy", Long: true, Exact: true, Says: []string{
	"A healthy holder never has less than 0.4 of its TTL left, and loses nothing by pauses of its backend of a fifth of the TTL.",
}}, func(t *trial) {
	const quiet, pauses = 5, 4
	t.Allow(20 * t.TTL)
	a := t.open(2 * t.TTL)
	ttl := a.TTL()
	mutex, reader := t.acquire(a.Mutex("m")), t.acquire(a.RWMutex("rw").Reader())
	var slowest pulse
	stop := slowest.feel(t, t.client())
	defer stop()
	least := func(d time.Duration, share float64, bears time.Duration, when string) {
		t.Helper()
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(ttl / 200) {
			for _, l := range []*interlock.Lease{mutex, reader} {
				left := l.Remaining()
				if left >= time.Duration(share*float64(ttl)) {
					continue
				}
				time.Sleep(ttl / 10) // what it felt at this moment has been noted then
				// Two exchanges make a lease's time: one proves, another asks what was proven.
				if felt := slowest.load(); felt > bears || left+2*felt >= time.Duration(share*float64(ttl)) {
					t.Slow("%v of %v were left, and an exchange took %v", left, ttl, felt)
				}
				t.Fatalf("%v of %v are left, %s: %v", left, ttl, when, l.Err())
			}
		}
	}
	least(quiet*ttl, 0.4, ttl/20, "while nothing is wrong")
	for i := range pauses {
		if t.world.Hang == nil {
			break
		}
		time.Sleep(ttl / 3 * time.Duration(i) / pauses)
		resume := sync.OnceFunc(t.world.Hang())
		defer resume() // before the clients close, if this machine is too slow
		least(ttl/5, 0.2, ttl/4, "in a pause of the backend")
		resume()
		least(ttl/2, 0.2, ttl/4, "after a pause of the backend")
	}
	t.release(mutex, reader)
})

// pulse is the longest time that an exchange has taken, or this machine has slept
// longer than it was to.
type pulse struct{ longest atomic.Int64 }

func (p *pulse) load() time.Duration { return time.Duration(p.longest.Load()) }

func (p *pulse) feel(t *trial, c *interlock.Client) (stop func()) {
	ctx, cancel := context.WithCancel(t.Ctx)
	began := &atomic.Int64{} // of the exchange that is under way
	note := func() {
		if at := began.Load(); at != 0 {
			p.longest.Store(max(p.longest.Load(), time.Now().UnixNano()-at))
		}
	}
	done := t.Done(func() error {
		for ctx.Err() == nil {
			began.Store(time.Now().UnixNano())
			_, _, _ = c.Latch("pulse").Count(ctx)
			time.Sleep(time.Millisecond)
			note()
			began.Store(0)
		}
		return nil
	})
	watch := t.Done(func() error {
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			note()
		}
		return nil
	})
	return func() {
		cancel()
		wait(t, done, "the pulse ends")
		wait(t, watch, "the pulse ends")
	}
}
