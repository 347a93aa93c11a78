package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const (
	leavesOpen  = "An error that is none of the package's sentinels leaves open whether the call took effect; the caller repeats it with the same identity."
	wrapsTheEnd = "A method whose context has ended returns an error that wraps the context's."
)

// play runs each part of the scenario with a fault at each of its calls in turn, and
// repeats every call that was struck, as callers do. The parts have nothing in common, so
// that a fault in one of them needs no more than that part to be seen.
func play(t *trial, about string, strike fault) {
	t.Helper()
	drivers := [3]driver.Driver{t.driver(), t.driver(), t.driver()}
	for _, p := range []part{lines, shares, values} {
		for k := 1; ; k++ {
			t.Allow(0)
			f := &faults{k: k, fault: strike}
			scenario(t, p, drivers, f, fmt.Sprintf("%s/%s/%d", about, p, k))
			if f.calls < k {
				t.Logf("%s, %s: struck each of %d calls", about, p, f.calls)
				break
			}
		}
	}
}

// part is a part of the scenario.
type part string

const (
	lines  part = "line"  // of exclusive tickets
	shares part = "share" // of a reader and a writer
	values part = "value" // of a cell
)

// scenario runs a part, and says after every step what must be true whether or not a call
// was struck. The parts together use every method.
func scenario(t *trial, p part, drivers [3]driver.Driver, f *faults, name string) {
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s, struck at %s: %s", name, f.hit, fmt.Sprintf(format, args...))
	}
	// try repeats a call whose outcome is open. The error after a repetition may
	// also be one of those that say that the first time worked.
	try := func(call func(retry bool) error, worked ...error) {
		t.Helper()
		err := call(false)
		repeated := false
		for i := 0; i < 3 && err != nil && !driver.IsPermanent(err); i++ {
			repeated = true
			err = call(true)
		}
		for _, w := range worked {
			if repeated && errors.Is(err, w) {
				return
			}
		}
		if err != nil {
			fail("%v", err)
		}
	}
	ctx := t.Ctx
	plain := drivers[2]
	open := func(d driver.Driver) (s driver.Session) {
		t.Helper()
		try(func(bool) (err error) {
			s, err = d.Open(ctx, driver.SessionOptions{TTL: 10 * limit})
			return err
		})
		return s
	}
	join := func(s driver.Session, r driver.Request, held bool) (tk driver.Ticket) {
		t.Helper()
		try(func(retry bool) (err error) {
			r.Retry = r.Retry || retry
			tk, err = s.Join(ctx, r)
			return err
		})
		if tk.Held != held {
			fail("Join returned %+v", tk)
		}
		return tk
	}
	await := func(s driver.Session, tk driver.Ticket) (got driver.Ticket) {
		t.Helper()
		try(func(bool) (err error) { got, err = s.Await(ctx, tk); return })
		if !got.Held || got.Token == 0 {
			fail("Await returned %+v", got)
		}
		return got
	}
	leave := func(s driver.Session, tk driver.Ticket) {
		t.Helper()
		try(func(bool) error { return s.Leave(ctx, tk, true) }, driver.ErrGone)
	}
	swap := func(d driver.Driver, s driver.Swap) (c driver.Cell) {
		t.Helper()
		try(func(bool) (err error) { c, err = d.Swap(ctx, s); return })
		if c.Version <= s.Version || c.Exists == s.Delete || !s.Delete && string(c.Value) != string(s.Value) {
			fail("Swap returned %s", show(c))
		}
		return c
	}

	da, db := suite.Hooked(drivers[0], f.hook), suite.Hooked(drivers[1], f.hook)
	switch p {
	case lines:
		a, b := open(da), open(db)
		queue := name + "/q"

		first := join(a, t.exclusive(queue), true)
		r2 := t.exclusive(queue)
		second := join(b, r2, false)
		third := join(a, t.exclusive(queue), false)
		t.stands(plain, queue, []driver.Ticket{first}, []driver.Ticket{second, third})

		busy := nowait(t.exclusive(queue))
		try(func(retry bool) error {
			busy.Retry = retry
			if _, err := b.Join(ctx, busy); !errors.Is(err, driver.ErrBusy) {
				return err
			}
			return nil
		})
		t.stands(plain, queue, []driver.Ticket{first}, []driver.Ticket{second, third})

		// Whoever has waited does so no longer.
		impatient := t.exclusive(queue)
		if _, err := b.Join(ctx, impatient); err != nil && !errors.Is(err, errLost) && !errors.Is(err, context.Canceled) {
			fail("Join: %v", err)
		}
		try(func(bool) error {
			if _, err := b.Join(ctx, again(nowait(impatient))); !errors.Is(err, driver.ErrBusy) {
				return cmp.Or(err, errors.New("join with NoWait does not say that it is busy"))
			}
			return nil
		}, driver.ErrGone)
		t.stands(plain, queue, []driver.Ticket{first}, []driver.Ticket{second, third})

		for s, known := range map[driver.Session][]driver.Ticket{a: {first, third}, b: {second}} {
			try(func(bool) error {
				answer, err := s.Renew(ctx, known)
				for _, r := range answer {
					if r.State != driver.Kept {
						return fmt.Errorf("renew: %+v", r)
					}
				}
				if err == nil && len(answer) != len(known) {
					return fmt.Errorf("renew of %d tickets answers %+v", len(known), answer)
				}
				return err
			})
		}
		try(func(bool) error { return db.Raise(ctx, queue, first.Token+100) })
		leave(a, first)
		got := await(b, second)
		if got.Token <= first.Token+100 {
			fail("the token is %d after %d and a Raise by 100", got.Token, first.Token)
		}
		if found := join(b, again(r2), true); found.Token != got.Token {
			fail("Join found the token %d, not %d", found.Token, got.Token)
		}
		t.stands(plain, queue, []driver.Ticket{second}, []driver.Ticket{third})
		try(func(bool) error { return da.Ask(ctx, queue, second.ID, driver.Revoke) })
		leave(a, third)
		t.stands(plain, queue, []driver.Ticket{second}, nil)
		if t.fixes() {
			try(func(bool) error { return b.Keep(ctx, second, 10*limit) })
			try(func(bool) error { return a.Keep(ctx, second, 9*limit) })
		}
		try(func(bool) error { return da.Ask(ctx, queue, second.ID, driver.Force) }, driver.ErrGone)
		t.stands(plain, queue, nil, nil)

		join(a, t.exclusive(queue), true)
		heir := join(b, t.exclusive(queue), false)
		try(func(bool) error { return a.Close(ctx) }, driver.ErrSession)
		if got := await(b, heir); !got.Inherited {
			fail("the next holder does not inherit from a session that was closed")
		}
		t.stands(plain, queue, []driver.Ticket{heir}, nil)
		try(func(bool) error { return b.Close(ctx) }, driver.ErrSession)
		t.stands(plain, queue, nil, nil)
	case shares:
		a, b := open(da), open(db)
		rw := name + "/rw"
		w := join(a, writer(rw), true)
		r := join(b, reader(rw), false)
		try(func(bool) error { return a.Shrink(ctx, w, 1) })
		await(b, r)
		t.stands(plain, rw, []driver.Ticket{w, r}, nil)
		try(func(bool) error { return a.Leave(ctx, w, false) }, driver.ErrGone)
		t.stands(plain, rw, []driver.Ticket{r}, nil)
		try(func(bool) error {
			q, err := da.Follow(ctx, rw, "")
			if err == nil && len(q.Members) != 1 {
				return fmt.Errorf("follow returned %+v", q)
			}
			return err
		})
		try(func(bool) error { return a.Close(ctx) }, driver.ErrSession)
		try(func(bool) error { return b.Close(ctx) }, driver.ErrSession)
		t.stands(plain, rw, nil, nil)
	case values:
		cell := name + "/c"
		one := swap(da, set(cell, 0, "one"))
		two := swap(db, set(cell, one.Version, "two"))
		gone := swap(da, remove(cell, two.Version))
		three := swap(db, set(cell, gone.Version, "three"))
		try(func(bool) error {
			c, err := da.Load(ctx, cell)
			if err == nil && (c.Version != three.Version || string(c.Value) != "three") {
				return fmt.Errorf("load returned %s", show(c))
			}
			return err
		})
		try(func(bool) error {
			c, err := da.Watch(ctx, cell, one.Version)
			if err == nil && (c.Version != three.Version || string(c.Value) != "three") {
				return fmt.Errorf("watch returned %s", show(c))
			}
			return err
		})
		t.holds(plain, cell, three)
	}
}

var _ = rules.Add(rule{Name: "LostReplies", Exclusive: true, Says: []string{leavesOpen}},
	func(t *trial) { play(t, "reply lost", lostReply) })

// The drivers themselves get no answer.
var _ = rules.Add(rule{Name: "LostAnswers", Hook: "Late", Says: []string{leavesOpen, wrapsTheEnd}}, func(t *trial) {
	play(t, "answer lost", lostAnswer(t.world.Late))
})

var _ = rules.Add(rule{Name: "LostCalls", Says: []string{leavesOpen}},
	func(t *trial) { play(t, "call lost", lostCall) })
