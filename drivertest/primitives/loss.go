package primitives

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/testserver"
)

// cutOff opens a client that is cut off from its backend while off is set.
func (t *trial) cutOff(off *atomic.Bool, opts ...interlock.ClientOption) *interlock.Client {
	return t.over(suite.Hooked(t.driver(), func(ctx context.Context, method string, call func(context.Context) error) error {
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
	pulse := t.pulse()
	least := func(d time.Duration, share float64, bears time.Duration, when string) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(ttl / 200) {
			for _, l := range []*interlock.Lease{mutex, reader} {
				left := l.Remaining()
				if left >= time.Duration(share*float64(ttl)) {
					continue
				}
				// Up to three exchanges make a lease's time, each after a timer: two prove, another asks what was
				// proven.
				if felt := pulse.Longest(); felt > bears || left+6*felt >= time.Duration(share*float64(ttl)) {
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

// pulse is how slow the backend is, by the exchanges of a client.
func (t *trial) pulse() *suite.Pulse {
	l := t.client().Latch("pulse")
	return t.Pulse(func(ctx context.Context) error { _, _, _ = l.Count(ctx); return nil })
}

// Exact: a reply that is lost is an outage.
var _ = rules.Add(rule{Name: "OutageOfAWait", Long: true, Exact: true, Says: []string{"Who waits while the backend goes away, and is not served in time, is told ErrUnavailable and not ErrBusy, whatever it waits for: " +
	"whether others hold the lock is not known."}}, func(t *trial) {
	for _, way := range []string{"no renewal is answered", "the backend hangs"} {
		t.Allow(5 * t.TTL)
		off := &atomic.Bool{}
		begin := func() (end func()) { off.Store(true); return func() { off.Store(false) } }
		if way == "the backend hangs" {
			if begin = t.world.Hang; begin == nil {
				break
			}
		}
		a, b := t.client(), t.cutOff(off)
		held := t.acquire(a.Mutex("m"))
		c := t.cutOff(off) // it has no tickets
		_, noCells := t.Unsupported["Barrier"]
		if !noCells {
			t.OK(a.Barrier("b").Set(t.Ctx), "Set")
			t.OK(suite.Err(a.Latch("l").Set(t.Ctx, 1)), "Set")
		}

		budget := 4*t.TTL + time.Second
		wait := interlock.Wait(budget)
		ends, cancel := context.WithTimeout(t.Ctx, budget)
		acquire := func(ctx context.Context, l *interlock.Lock) func() error {
			return func() error { _, err := l.Acquire(ctx); return err }
		}
		began := time.Now()
		waits := map[string]<-chan error{}
		for what, f := range map[string]func() error{
			"Acquire with Wait":                           acquire(t.Ctx, b.Mutex("m", wait)),
			"Acquire with Wait, behind one of its client": acquire(t.Ctx, b.Mutex("m", wait)),
			"Acquire with a deadline":                     acquire(ends, b.Mutex("m", interlock.StrictOrder())),
			"Acquire of All":                              acquire(t.Ctx, interlock.All(b.Mutex("free"), b.Mutex("m", interlock.StrictOrder())).With(wait)),
			"Barrier.Wait":                                func() error { return b.Barrier("b").Wait(ends) },
			"Latch.Wait":                                  func() error { return b.Latch("l").Wait(ends) },
			"Barrier.Wait of a client that waits for nothing else": func() error { return c.Barrier("b").Wait(ends) },
			"DoubleBarrier.Enter": func() error { _, err := b.DoubleBarrier("d", 2).Enter(ends); return err },
		} {
			if !noCells || strings.HasPrefix(what, "Acquire") {
				waits[what] = t.Done(f)
			}
		}
		t.waiting(a, "m", 3)
		if !noCells {
			t.Eventually("a member waits for another", func() bool {
				n, _, err := a.DoubleBarrier("d", 2).Count(t.Ctx)
				return err == nil && n == 1
			})
		}
		end := begin()
		if late := time.Since(began); late > budget-2*t.TTL {
			end()
			t.Slow("all wait after %v", late)
		}
		for what, done := range waits {
			switch err := <-done; {
			case !errors.Is(err, interlock.ErrUnavailable), errors.Is(err, interlock.ErrBusy):
				t.Errorf("%s, while %s: %v", what, way, err)
			case what == "Acquire with a deadline" && !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("%s, while %s: %v does not say that its context has ended", what, way, err)
			}
		}
		end()
		cancel()
		t.release(held)
		if !noCells {
			t.OK(a.Barrier("b").Remove(t.Ctx), "Remove")
			t.OK(a.Latch("l").Reset(t.Ctx), "Reset")
		}
	}
})

// outages are what a network does for a while.
var outages = []struct {
	name       string
	begin, end func(*testserver.Proxy)
}{
	{"bytes are dropped, and the connections then end", (*testserver.Proxy).Hang, func(p *testserver.Proxy) { p.Cut(); p.Resume() }},
	{"answers are dropped, and the connections then end", (*testserver.Proxy).Late, func(p *testserver.Proxy) { p.Cut(); p.Resume() }},
	{"connections are refused", func(p *testserver.Proxy) { p.Refuse(true); p.Cut() }, func(p *testserver.Proxy) { p.Refuse(false) }},
}

var _ = rules.Add(rule{Name: "ShortOutage", Exact: true, Says: []string{
	"An outage of two fifths of the TTL loses nothing, however it looks to the client.",
}}, func(t *trial) {
	if t.Simulated || t.world.Via == nil {
		t.Skip("there is no network between the clients and the backend")
	}
	pulse := t.pulse()
	var clients []*interlock.Client
	var networks []*suite.Network
	var leases []*interlock.Lease
	for _, o := range outages {
		n := &suite.Network{TB: t}
		d, err := t.world.Via(t.Ctx, n.At)
		t.OK(err, "open a driver")
		a := t.over(d, 4*t.TTL)
		clients, networks = append(clients, a), append(networks, n)
		leases = append(leases, t.acquire(a.Mutex(o.name)), t.acquire(a.RWMutex("rw").Reader()))
	}
	ttl := clients[0].TTL()
	t.Allow(20 * ttl)
	t.Parallel(len(outages), func(i int) {
		time.Sleep(ttl + ttl/3*time.Duration(i)/time.Duration(len(outages)))
		networks[i].Each(outages[i].begin)
		time.Sleep(ttl * 2 / 5)
		networks[i].Each(outages[i].end)
		time.Sleep(ttl * 3 / 5)
	})
	for i, l := range leases {
		if err := l.Err(); err == nil {
			continue
		} else if felt := pulse.Longest(); felt > ttl/20 {
			t.Slow("an exchange took %v, and a lease was lost: %v", felt, err)
		} else {
			t.Fatalf("%s for two fifths of the TTL: %v", outages[i/2].name, err)
		}
	}
	t.release(leases...)
})
