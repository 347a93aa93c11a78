package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/testserver"
)

var _ = rules.Add(rule{Name: "SessionIDs", Says: []string{
	"it is unlike that of any other session, ever",
	"what the backend granted, not what was asked for",
}}, func(t *trial) {
	seen := map[string]bool{}
	for range 3 {
		d := t.driver()
		for range 5 {
			s := t.session(d, 10*t.TTL)
			t.FatalIf(s.ID == "" || seen[s.ID], "the ID %q is empty or was used before", s.ID)
			seen[s.ID] = true
			t.FatalIf(s.TTL <= 0, "the granted TTL is %v", s.TTL)
			t.OK(s.Close(t.Ctx), "Close")
		}
	}
})

var _ = rules.Add(rule{Name: "SessionTTL", Says: []string{
	"what the backend granted, not what was asked for",
}}, func(t *trial) {
	d := t.driver()
	for _, ttl := range []time.Duration{1, 100 * 365 * 24 * time.Hour, 1<<63 - 1} {
		var s *driver.Opened
		err := t.known(func() (err error) {
			s, err = d.Open(t.Ctx, driver.SessionOptions{TTL: ttl})
			return err
		})
		t.FatalIf(err != nil || s.TTL <= 0, "Open with a TTL of %v: %v", ttl, err)
		if err := s.Close(t.Ctx); err != nil && !errors.Is(err, driver.ErrSession) { // a short one may be over
			t.Fatalf("Close: %v", err)
		}
	}
})

var _ = rules.Add(rule{Name: "SessionClose", Across: true, Exclusive: true, Says: []string{
	"Close ends the session at once. Its waiting tickets leave; its held tickets leave uncleanly, except those with a fixed end, which stay.",
	"A grant that no call on the session has returned yet may count as waiting: nobody uses it.",
	"Once a session is over every method returns ErrSession.",
	"To close it again is ErrSession, too.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	held := a.hold(t.exclusive("held"))
	front := b.hold(t.exclusive("waiting"))
	waiting := a.wait(t.exclusive("waiting"))
	var fixed []driver.Ticket
	if t.fixes() {
		a.wait(t.fixed("waiting", 10*limit)) // its time would begin with the grant
		fixed = append(fixed, a.hold(t.fixed("fixed", 10*limit)))
	}
	next := b.wait(t.exclusive("held"))
	sibling := t.session(a.driver, 10*limit)
	stays := sibling.hold(t.exclusive("sibling"))

	awaits, signals := a.awaits(waiting), t.Done(func() error { return suite.Err(hears(t.Ctx, a, never)) })
	time.Sleep(time.Millisecond) // they wait by now
	a.close()
	t.Is(<-awaits, driver.ErrSession, "Await under way when the session was closed")
	t.Is(<-signals, driver.ErrSession, "Signals under way when the session was closed")
	t.stands(b.driver, "held", []driver.Ticket{next}, nil)
	t.stands(b.driver, "waiting", []driver.Ticket{front}, nil)
	t.stands(b.driver, "fixed", fixed, nil)
	t.stands(b.driver, "sibling", []driver.Ticket{stays}, nil)
	t.FatalIf(!b.await(next).Inherited, "the next holder does not inherit from a session that was closed")
	sibling.await(stays)

	calls := callsOf(a, held, t.exclusive("new"))
	calls["Shrink"] = func(ctx context.Context) error { return a.Shrink(ctx, held, 1) }
	calls["Signals"] = func(ctx context.Context) error { return suite.Err(a.Signals(ctx)) }
	for name, call := range calls {
		t.Is(call(t.Ctx), driver.ErrSession, "%s in a session that is over", name)
	}
	t.stands(b.driver, "new", nil, nil)
	for range 2 {
		t.Is(a.Close(t.Ctx), driver.ErrSession, "Close of a session that is over")
	}
})

var _ = rules.Add(rule{Name: "CloseBesideAnEviction", Exclusive: true, Says: []string{
	"Close ends the session at once. Its waiting tickets leave; its held tickets leave uncleanly, except those with a fixed end, which stay.",
}}, func(t *trial) {
	d, b := t.driver(), t.client()
	for range t.size(50, 20) {
		a := t.session(d, 10*limit)
		r := t.exclusive("q")
		a.hold(r)
		next := b.wait(t.exclusive("q"))
		asked := t.Done(func() error {
			return t.known(func() error { return b.driver.Ask(t.Ctx, "q", r.ID, driver.Evict) })
		})
		time.Sleep(rand.N(5 * time.Millisecond)) // the eviction is under way
		a.close()
		t.OK(suite.Unless(<-asked, driver.ErrGone), "Ask to evict a ticket whose session is closed")
		b.leave(b.await(next)) // long before the TTL of the first session
	}
})

var _ = rules.Add(rule{Name: "SessionDeath", Says: []string{
	"ErrSession means that all tickets without a fixed end are gone.",
}}, func(t *trial) {
	a, b := t.mortal(), t.client()
	held := a.lease(a.join(t.exclusive("q")))
	stray := a.join(t.exclusive("r"))
	next := b.behind(t.exclusive("q"))
	next.notBefore(held.end(), "which nobody renewed")
	t.Eventually("all tickets of a dead session leave", func() bool { return len(t.snapshot(b.driver, "r").Members) == 0 })
	a.over(held.ticket, stray)
})

// never is what is waited for by a call that is to fail.
func never[T any](T) bool { return false }

const closeFrees = "Close ends every call under way and frees what the driver holds."

var _ = rules.Add(rule{Name: "CloseEndsCalls", Says: []string{
	closeFrees,
	"Closing it again does nothing and returns nil.",
}}, func(t *trial) {
	d, shut := t.guest()
	a, b := t.session(d, 10*limit), t.client()
	b.hold(t.exclusive("q"))
	waiting := a.wait(t.exclusive("q"))
	q := t.snapshot(d, "q")
	results := t.beside(t.Ctx, map[string]func(context.Context) error{
		"Await":   func(ctx context.Context) error { return suite.Err(a.Await(ctx, waiting)) },
		"Signals": func(ctx context.Context) error { return suite.Err(hears(ctx, a, never)) },
		"Watch":   func(ctx context.Context) error { return suite.Err(d.Watch(ctx, "c", 0)) },
		"Follow":  func(ctx context.Context) error { return suite.Err(follows(ctx, d, "q", q.Version, never)) },
	})
	time.Sleep(20 * time.Millisecond) // most are under way; any moment is right
	t.OK(shut(), "Close")
	for range 2 {
		t.OK(d.Close(), "Close, again")
	}
	for range cap(results) {
		select {
		case r := <-results:
			t.FatalIf(r.err == nil, "%s that was under way when the driver was closed succeeds", r.name)
		case <-t.Ctx.Done():
			t.Fatalf("a call that was under way when the driver was closed does not end")
		}
	}

	calls := everyCall(d, a, waiting, t.exclusive("r"), set("c", 0, "v"))
	for _, name := range []string{"Open", "Load", "Join", "Renew", "Follow"} {
		t.FatalIf(calls[name](t.Ctx) == nil, "%s of a closed driver succeeds", name)
	}
	t.stands(b.driver, "r", nil, nil)
})

var _ = rules.Add(rule{Name: "CloseWithOpenSessions", Says: []string{
	"Sessions that were not closed end as if their process had died.",
}}, func(t *trial) {
	d, shut := t.guest()
	a, b := t.session(d, t.TTL), t.client()
	a.join(t.exclusive("q"))
	a.join(t.exclusive("q"))
	next := b.join(t.exclusive("q"))
	b.beat(next)
	t.OK(shut(), "Close")
	t.FatalIf(!b.await(next).Inherited, "the next holder does not inherit from a client that died")
})

// sharedAtMost is how often a pool may grow that the clients of a process share.
const sharedAtMost = 10

// Waits that have ended and drivers that are closed leave nothing behind.
var _ = rules.Add(rule{Name: "NoLeftovers", Alone: true, Says: []string{closeFrees}}, func(t *trial) {
	holder, leave := t.guest()
	t.session(holder, 10*limit).hold(t.exclusive("q"))
	round := func() {
		d, shut := t.guest()
		b := t.session(d, t.TTL)
		waiting := b.join(t.exclusive("q"))
		ctx, cancel := context.WithTimeout(t.Ctx, time.Millisecond)
		b.Await(ctx, waiting)
		b.Signals(ctx)
		d.Watch(ctx, "c", 0)
		d.Follow(ctx, "q", t.snapshot(d, "q").Version)
		for range d.Queues(t.Ctx, "") {
			break
		}
		cancel()
		t.OK(shut(), "Close")
	}
	round() // what the process keeps for good is there now,
	within, most := time.Second, sharedAtMost
	if t.Simulated {
		most = 1 // there are none
	}
	for grown := 0; ; grown++ { // but for the connections that its clients share, which may become a few more
		before := goleak.IgnoreCurrent()
		goroutines := runtime.NumGoroutine()
		for range t.size(20, 5) {
			round()
		}
		err := leaked(before, within)
		if err == nil {
			break
		}
		t.FatalIf(grown == most,
			"%d goroutines became %d, %d times: %v", goroutines, runtime.NumGoroutine(), grown+1, err)
		within = leakLimit
		t.Allow(0)
	}
	if t.world.Via == nil {
		return
	}
	t.OK(leave(), "Close") // what it has begun meanwhile is not left behind by others
	before := goleak.IgnoreCurrent()
	n := &suite.Network{TB: t}
	d, err := t.world.Via(t.Ctx, n.At)
	t.OK(err, "open a driver")
	t.session(d, 10*limit).hold(t.exclusive("r"))
	time.Sleep(3 * time.Second / 2) // clients try for longer to restore a connection that has lasted
	n.Each(func(p *testserver.Proxy) { p.Refuse(true); p.Cut() })
	t.Eventually("a call fails", func() bool {
		ctx, cancel := context.WithTimeout(t.Ctx, 100*time.Millisecond)
		defer cancel()
		_, err := d.Load(ctx, "c")
		return err != nil
	})
	_ = d.Close()
	n.Each((*testserver.Proxy).Close)
	t.OK(leaked(before, leakLimit), "leave nothing behind while the backend is away")
})

var _ = rules.Add(rule{Name: "Check", Says: []string{
	"Check examines whether the backend can be reached and is configured so that its promises hold. It reports what it found out even when something failed.",
	"what was looked at", "what was found", "the promise that this affects; \"\" if OK", "what to do; \"\" if OK",
}}, func(t *trial) {
	d := t.driver()
	ctx, cancel := context.WithCancel(t.Ctx)
	cancel()
	t.FatalIf(len(d.Check(ctx)) == 0, "Check tells nothing when its context has ended")
	findings := d.Check(t.Ctx)
	t.FatalIf(len(findings) == 0, "Check found nothing out")
	for _, f := range findings {
		t.FatalIf(f.Check == "" || f.Detail == "", "a finding without a subject or a detail: %+v", f)
		switch f.Status {
		case driver.OK:
			t.FatalIf(f.Promise != "" || f.Remedy != "", "nothing is wrong, and yet there is a remedy: %+v", f)
		case driver.Warn, driver.Fail:
			t.FatalIf(f.Promise == "" || f.Remedy == "",
				"something is wrong, and no promise or no remedy is named: %+v", f)
			t.FatalIf(f.Status == driver.Fail, "the backend under test fails its own examination: %+v", f)
		default:
			t.Fatalf("a finding of no known status: %+v", f)
		}
		t.Logf("%s: %s: %s %s", f.Status, f.Check, f.Detail, f.Remedy)
	}
})
