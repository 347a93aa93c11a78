package drivertest

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
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

	calls := make(chan error, 2)
	t.Calls.Go(func() {
		_, err := a.Await(t.Ctx, waiting)
		calls <- err
	})
	t.Calls.Go(func() {
		for {
			if _, err := a.Signals(t.Ctx); err != nil {
				calls <- err
				return
			}
		}
	})
	time.Sleep(time.Millisecond) // they wait by now
	t.OK(a.Close(t.Ctx), "Close")
	for range 2 {
		t.Is(<-calls, driver.ErrSession, "Await or Signals under way when the session was closed")
	}
	t.stands(b.driver, "held", []driver.Ticket{next}, nil)
	t.stands(b.driver, "waiting", []driver.Ticket{front}, nil)
	t.stands(b.driver, "fixed", fixed, nil)
	t.stands(b.driver, "sibling", []driver.Ticket{stays}, nil)
	t.FatalIf(!b.await(next).Inherited, "the next holder does not inherit from a session that was closed")
	sibling.await(stays)

	_, join := a.Join(t.Ctx, t.exclusive("new"))
	_, await := a.Await(t.Ctx, held)
	_, renew := a.Renew(t.Ctx, []driver.Ticket{held})
	_, signals := a.Signals(t.Ctx)
	for name, err := range map[string]error{
		"Join": join, "Await": await, "Renew": renew, "Signals": signals,
		"Shrink": a.Shrink(t.Ctx, held, 1),
		"Keep":   a.Keep(t.Ctx, held, limit),
		"Leave":  a.Leave(t.Ctx, held, true),
	} {
		t.FatalIf(!errors.Is(err, driver.ErrSession), "%s in a session that is over: %v", name, err)
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
		asked := make(chan error, 1)
		t.Calls.Go(func() {
			asked <- t.known(func() error { return b.driver.Ask(t.Ctx, "q", r.ID, driver.Evict) })
		})
		time.Sleep(rand.N(5 * time.Millisecond)) // the eviction is under way
		t.OK(a.Close(t.Ctx), "Close")
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
