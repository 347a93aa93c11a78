package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const followSays = "Follow returns the queue as soon as it differs from the state with version after, at once if it already does; \"\" differs from every state. It may skip states, but never misses the last."

const statesDiffer = "States differ if their members do, or the units, grants or fixed ends of these; a renewal makes no other state."

// follows reads the states of a queue that come after a version, until there is one that is meant.
func follows(
	ctx context.Context, d driver.Driver, queue, after string, is func(driver.Queue) bool,
) (driver.Queue, error) {
	for {
		q, err := d.Follow(ctx, queue, after)
		if err == nil && q.Version == after {
			err = fmt.Errorf("follow returned the version it was given, %q", after)
		}
		if err != nil || is(q) {
			return q, err
		}
		after = q.Version
	}
}

var _ = rules.Add(rule{Name: "Follow", Across: true, Says: []string{
	followSays,
	statesDiffer,
	"A queue without tickets is empty, not an error.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	watcher := t.driver()
	q := t.snapshot(watcher, "q")
	t.FatalIf(len(q.Members) != 0 || q.Version == "" || q.Name != "q", "Follow of a queue that never was: %+v", q)
	quiet := func() {
		ctx, cancel := t.soon()
		defer cancel()
		t.Is(suite.Of(watcher.Follow(ctx, "q", q.Version)), context.DeadlineExceeded, "Follow of a queue that does not change")
	}
	// after follows the queue until it is as it must be after the step.
	after := func(step string, do func(), is func(q driver.Queue) bool) {
		seen := t.Done(func() (err error) { q, err = follows(t.Ctx, watcher, "q", q.Version, is); return err })
		time.Sleep(2 * time.Millisecond) // so that it waits; if not, the rule is easier to keep
		do()
		t.OK(<-seen, "Follow, waiting until %s", step)
	}
	members := func(want ...driver.Ticket) func(driver.Queue) bool {
		return func(q driver.Queue) bool {
			if len(q.Members) != len(want) {
				return false
			}
			for i, m := range q.Members {
				if m.ID != want[i].ID {
					return false
				}
			}
			return true
		}
	}
	quiet()
	var first, second, third driver.Ticket
	r1, r2, r3 := permits("q", 5, 5), permits("q", 2, 5), permits("q", 3, 5)
	first, second, third = driver.Ticket{ID: r1.ID, Queue: "q"}, driver.Ticket{ID: r2.ID, Queue: "q"}, driver.Ticket{ID: r3.ID, Queue: "q"}
	after("the first holds", func() { a.hold(r1) }, members(first))
	time.Sleep(time.Millisecond) // it stands for longer by so much
	a.renew(first)
	quiet() // but for how long it stands
	after("two wait", func() { b.wait(r2); b.wait(r3) }, members(first, second, third))
	after("it has shrunk", func() {
		a.shrink(first, 3)
	}, func(q driver.Queue) bool {
		return len(q.Members) == 3 && q.Members[0].Units == 3 && q.Members[1].Held && !q.Members[2].Held
	})
	quiet()
	after("the third holds", func() { a.leave(first) }, func(q driver.Queue) bool {
		return len(q.Members) == 2 && q.Members[0].Held && q.Members[1].Held
	})
	after("one has left", func() { b.leave(second) }, members(third))
	if t.fixes() {
		keep := func(d time.Duration) func() {
			return func() {
				t.OK(b.Keep(t.Ctx, third, d), "Keep")
			}
		}
		after("it has a fixed end", keep(10*limit), func(q driver.Queue) bool { return q.Members[0].Fixed })
		b.renew(third)
		quiet()
		after("it has a later one", keep(20*limit), func(q driver.Queue) bool { return q.Members[0].Left > 10*limit })
	}
	after("it is empty", func() { b.leave(third) }, members())
	quiet()

	// Expiry is a change that nobody makes.
	d := t.mortal()
	alive := t.client()
	alive.beat()
	held := d.lease(d.join(permits("q", 1, 5)))
	if q = t.snapshot(watcher, "q"); len(q.Members) != 1 {
		t.inTime(d.driver, held.end())
		t.Fatalf("the queue of one ticket is %+v", q)
	}
	after("a dead session's ticket has left", func() {}, members())
})

var _ = rules.Add(rule{Name: "FollowNeverMissesTheLast", Across: true, Says: []string{followSays}}, func(t *trial) {
	a, b := t.client(), t.client()
	watchers := []driver.Driver{t.driver(), t.driver(), a.driver}
	for range t.size(10, 3) {
		var last driver.Ticket
		r := permits("q", 1, 3)
		changing := t.Go(func() {
			for range 10 {
				time.Sleep(rand.N(200 * time.Microsecond))
				one, two := a.join(permits("q", 2, 3)), b.join(permits("q", 2, 3))
				a.leave(one)
				b.leave(two)
			}
			last = b.join(r)
		})
		t.Parallel(len(watchers), func(i int) {
			_, err := follows(t.Ctx, watchers[i], "q", "", func(q driver.Queue) bool {
				return len(q.Members) == 1 && q.Members[0].ID == r.ID
			})
			t.OK(err, "Follow, waiting for the last state")
		})
		changing()
		b.leave(last)
	}
})

var _ = rules.Add(rule{Name: "Snapshots", Says: []string{
	"Queue is a snapshot of a queue, its members in the order of Join.",
	"Member is a ticket as inspection shows it.",
	"from Queue.Read: how long it stands if nothing renews it",
	"it has a fixed end, which Left counts to",
	"the local time before it was read",
	"for Follow; never \"\"",
	"of the Join, by the backend's clock",
	"who and why, a candidate's value; shown by inspection",
}}, func(t *trial) {
	d := t.driver()
	s, err := d.Open(t.Ctx, driver.SessionOptions{TTL: limit, Owner: "an owner: ü"})
	t.OK(err, "Open")
	a := &client{s, d, t, 0}
	b := t.client()
	r1, r2, r3 := permits("q", 2, 5), permits("q", 3, 5), permits("q", 1, 5)
	ids := []string{r1.ID, r2.ID, r3.ID}
	slices.Sort(ids)
	r1.ID, r2.ID, r3.ID = ids[2], ids[1], ids[0] // the order of Join is not that of the IDs
	r1.Note = []byte("a note: \x00\xff ü")
	r2Left := a.TTL
	if t.fixes() {
		r2.Hold, r2Left = 5*limit, 5*limit
	}
	first, second, third := a.hold(r1), a.hold(r2), b.wait(r3)
	r1.Note[0] = 'X' // the caller's bytes are the caller's
	q := t.snapshot(b.driver, "q")
	t.FatalIf(q.Name != "q" || q.Kind != driver.Semaphore || q.Capacity != 5 || len(q.Members) != 3 || q.Version == "",
		"the snapshot is %+v", q)
	now := b.driver.Now()
	t.FatalIf(q.Read > now || q.Read < now.Add(-limit), "the snapshot was read at %v, and it is %v", q.Read, now)
	for i, want := range []driver.Member{
		{ID: r1.ID, Owner: "an owner: ü", Note: []byte("a note: \x00\xff ü"), Units: 2, Held: true, Token: first.Token, Left: a.TTL},
		{ID: r2.ID, Owner: "an owner: ü", Units: 3, Held: true, Token: second.Token, Left: r2Left, Fixed: r2.Hold > 0},
		{ID: third.ID, Owner: "drivertest", Units: 1, Left: b.TTL},
	} {
		got := q.Members[i]
		if got.ID != want.ID || got.Owner != want.Owner || string(got.Note) != string(want.Note) || got.Units != want.Units ||
			got.Held != want.Held || got.Token != want.Token || got.Fixed != want.Fixed {
			t.Fatalf("member %d is %+v, not %+v", i, got, want)
		}
		t.FatalIf(got.Left <= 0 || got.Left > want.Left+time.Second,
			"member %d stands for %v, and not for %v at most", i, got.Left, want.Left)
		t.FatalIf(got.Since.IsZero() || i > 0 && got.Since.Before(q.Members[i-1].Since),
			"member %d joined at %v", i, got.Since)
	}
	if len(q.Members[0].Note) > 0 {
		q.Members[0].Note[0] = 'X'
		t.FatalIf(string(t.snapshot(b.driver, "q").Members[0].Note) != "a note: \x00\xff ü",
			"the note changed with the caller's slice")
	}
})

var _ = rules.Add(rule{Name: "ATicketThatChangesIsShown", Across: true, Says: []string{
	"Queue is a snapshot of a queue, its members in the order of Join.",
	"A ticket that does not stand: ErrGone.",
}}, func(t *trial) {
	a, b := t.client(), t.driver()
	a.beat()
	r := permits("q", 300, 300)
	held := a.hold(r)
	units, hold := r.Units, 10*limit
	change := func() error {
		units = max(units-1, 1)
		return a.Shrink(t.Ctx, held, units)
	}
	if t.fixes() {
		change = func() error {
			hold += time.Second
			return a.Keep(t.Ctx, held, hold)
		}
	}
	looks := map[string]func() error{
		"Follow": func() error {
			q, err := b.Follow(t.Ctx, "q", "")
			if err == nil && len(q.Members) != 1 {
				err = fmt.Errorf("the ticket stands, and the queue has %+v", q)
			}
			return err
		},
		"Queues": func() error {
			for q, err := range b.Queues(t.Ctx, "q") {
				if err != nil || len(q.Members) == 1 {
					return err
				}
			}
			return errors.New("the queue of the ticket is not there")
		},
		"Ask": func() error { return b.Ask(t.Ctx, "q", held.ID, driver.Revoke) },
	}
	for what, look := range looks {
		var enough atomic.Bool
		changing := t.Go(func() {
			for ; !enough.Load(); time.Sleep(rand.N(time.Millisecond)) {
				t.OK(change(), "a change")
			}
		})
		for range t.size(100, 20) {
			time.Sleep(rand.N(2 * time.Millisecond)) // so that each of the two can pass the other
			t.OK(look(), "%s of a ticket that changes", what)
		}
		enough.Store(true)
		changing()
	}
})

// A driver may look by itself now and then, for news that was lost. That is not what "as
// soon as" means: here it has to be told. A busy machine may be slow once, and so each
// change is made a few times.
const (
	soon     = 5 * time.Second
	attempts = 3
)

// tells reports whether wait returns soon after do.
func (t *trial) tells(wait func(context.Context) error, do func()) bool {
	ctx, cancel := context.WithCancel(t.Ctx)
	defer cancel()
	done := t.Done(func() error { return wait(ctx) })
	time.Sleep(50 * time.Millisecond) // so that it waits; if not, the rule is easier to keep
	do()
	select {
	case err := <-done:
		t.OK(err, "the call that waits")
		return true
	case <-time.After(soon):
		cancel()
		t.OK(suite.Unless(<-done, context.Canceled), "the call that waits")
		return false
	}
}

var _ = rules.Add(rule{Name: "FollowIsTold", Says: []string{followSays}}, func(t *trial) {
	a, b, watcher := t.client(), t.client(), t.driver()
	var queue string
	// told makes a change and reports whether a follower sees it soon.
	told := func(held, waiting int, do func()) bool {
		from := t.snapshot(watcher, queue).Version
		return t.tells(func(ctx context.Context) error {
			return suite.Err(follows(ctx, watcher, queue, from, func(q driver.Queue) bool {
				return len(q.Members) == held+waiting && (held == 0 || q.Members[0].Held)
			}))
		}, do)
	}
	queue = "before" // a driver that has just begun to listen looks, too
	var first, second, third driver.Ticket
	hold := func() { first = a.hold(t.exclusive(queue)) }
	told(1, 0, hold)

	steps := []struct {
		about         string
		held, waiting int
		do            func()
	}{
		{"the only ticket comes", 1, 0, hold},
		{"the only ticket goes", 0, 0, func() { a.leave(first) }},
		{"another one comes", 1, 0, hold},
		{"the first waits", 1, 1, func() { second = b.wait(t.exclusive(queue)) }},
		{"the second waits", 1, 2, func() { third = a.wait(t.exclusive(queue)) }},
		{"the first is granted", 1, 1, func() { a.leave(first) }},
		{"the second goes", 1, 0, func() { a.leave(third) }},
		{"the last goes", 0, 0, func() { b.leave(second) }},
	}
	late := make([]int, len(steps))
	for n := 1; ; n++ {
		t.Allow(0)
		queue = fmt.Sprint("q", n)
		a.leave(a.hold(t.exclusive(queue))) // for some backends the first ticket ever is another case
		for i, step := range steps {
			if !told(step.held, step.waiting, step.do) {
				late[i]++
			}
			t.FatalIf(late[i] == attempts,
				"%s, and Follow has not returned after %v, %d times", step.about, soon, attempts)
		}
		if !slices.Contains(late, n) {
			return
		}
	}
})

// The session waits for nothing, and no heartbeat comes: what says it is that which asks.
var _ = rules.Add(rule{Name: "DemandIsTold", Says: []string{
	"What Ask sends to a ticket that is held is delivered without one, soon: Revoke, or Evict, also for one that is taken away.",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	for what, want := range map[driver.Demand]driver.Demand{driver.Revoke: driver.Revoke, driver.Evict: driver.Evict, driver.Force: driver.Evict} {
		for n := 1; ; n++ { // as above
			t.Allow(0)
			tk := a.hold(t.exclusive(fmt.Sprint("q", what, n)))
			told := t.tells(func(ctx context.Context) error {
				return suite.Err(hears(ctx, a, func(s driver.Signal) bool { return s.ID == tk.ID && s.Demand == want }))
			}, func() {
				t.OK(t.known(func() error { return b.driver.Ask(t.Ctx, tk.Queue, tk.ID, what) }), "Ask (%d)", what)
			})
			if what != driver.Force {
				a.leave(tk)
			}
			if told {
				break
			}
			t.FatalIf(n == attempts,
				"Ask (%d) was sent to a ticket that is held, and Signals has not returned after %v, %d times", what, soon, attempts)
		}
	}
})

var _ = rules.Add(rule{Name: "WatchIsTold", Says: []string{watchSays}}, func(t *trial) {
	a, watcher := t.driver(), t.driver()
	var c driver.Cell
	for n := range attempts + 1 { // as above
		t.Allow(0)
		told := t.tells(func(ctx context.Context) error {
			_, err := watcher.Watch(ctx, "c", c.Version)
			return err
		}, func() { t.swap(a, set("c", c.Version, fmt.Sprint(n))) })
		if told && n > 0 {
			return
		}
		var err error
		c, err = a.Load(t.Ctx, "c")
		t.FatalIf(err != nil, "Load: %v", err)
	}
	t.Fatalf("a cell has changed, and Watch has not returned after %v, %d times", soon, attempts)
})
