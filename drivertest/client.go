package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// client is a session on a driver of its own. Its methods end the rule when a
// call fails that must not, so only the rule's own goroutine may use them; the
// calls of driver.Session itself are for all.
type client struct {
	*driver.Opened
	driver driver.Driver
	t      *trial
	opened driver.Instant
}

// client opens a session that outlives the rule without renewing anything.
func (t *trial) client() *client {
	return t.session(t.driver(), 10*limit)
}

// mortal opens a session that dies soon if it renews nothing.
func (t *trial) mortal() *client {
	return t.session(t.driver(), t.TTL)
}

func (t *trial) session(d driver.Driver, ttl time.Duration) *client {
	opened := d.Now()
	var s *driver.Opened
	err := t.call(func() (err error) {
		s, err = d.Open(t.Ctx, driver.SessionOptions{TTL: ttl, Owner: "drivertest"})
		return err
	})
	t.okBefore(d, opened.Add(ttl), err, "Open")
	return &client{Opened: s, driver: d, t: t, opened: opened}
}

// inTime gives up an attempt in which a call came so late that its session is over, and the
// tickets with it.
func (c *client) inTime(err error) {
	if errors.Is(err, driver.ErrSession) || errors.Is(err, driver.ErrGone) {
		c.t.inTime(c.driver, c.opened.Add(c.TTL))
	}
}

// join puts a ticket into its queue.
func (c *client) join(r driver.Request) driver.Ticket {
	var tk driver.Ticket
	err := c.t.call(func() (err error) {
		tk, err = c.Join(c.t.Ctx, r)
		r.Retry = true
		return err
	})
	c.inTime(err)
	c.t.OK(err, "Join of %q", r.Queue)
	c.t.FatalIf(tk.ID != r.ID || tk.Queue != r.Queue,
		"Join of %s in %q returned the ticket %s in %q", r.ID, r.Queue, tk.ID, tk.Queue)
	c.t.FatalIf(tk.Held != (tk.Token != 0), "Join: a ticket with Held %v has the token %d", tk.Held, tk.Token)
	return tk
}

// hold joins and must hold at once.
func (c *client) hold(r driver.Request) driver.Ticket {
	tk := c.join(r)
	c.t.FatalIf(!tk.Held, "%s of %d units waits, although it fits the capacity", r.Queue, r.Units)
	return tk
}

// wait joins and must stand in line.
func (c *client) wait(r driver.Request) driver.Ticket {
	tk := c.join(r)
	c.t.FatalIf(tk.Held, "%s of %d units is held, although it does not fit the capacity", r.Queue, r.Units)
	return tk
}

// await waits until the ticket is held.
func (c *client) await(tk driver.Ticket) driver.Ticket {
	var got driver.Ticket
	err := c.t.call(func() (err error) { got, err = c.Await(c.t.Ctx, tk); return err })
	c.okIn(tk.Queue, err, "Await of %s", tk.ID)
	c.t.FatalIf(!got.Held || got.Token == 0 || got.ID != tk.ID || got.Queue != tk.Queue,
		"Await of %s in %q returned %+v", tk.ID, tk.Queue, got)
	return got
}

// unanswered joins, and the answer is lost. By that time the ticket has come, or not, as another client sees.
func (c *client) unanswered(r driver.Request, other *client) (came bool) {
	before := r
	before.ID = newID()
	c.leave(c.hold(before)) // so that the next one takes a single exchange
	_ = lostAnswer(c.t.world.Late)(c.t.Ctx, func(ctx context.Context) error { return suite.Err(c.Join(ctx, r)) })
	return len(c.t.snapshot(other.driver, r.Queue).Members) > 0
}

// awaits begins to await the ticket.
func (c *client) awaits(tk driver.Ticket) <-chan error {
	return c.t.Done(func() error { return suite.Err(c.Await(c.t.Ctx, tk)) })
}

// awaiting begins to await the ticket, and returns when whoever awaits it has come to rest,
// so that it learns of the grant by whatever way the backend sends news. granted waits for it.
func (c *client) awaiting(tk driver.Ticket) (granted func() driver.Ticket) {
	var got driver.Ticket
	done := c.t.Done(func() (err error) { got, err = c.Await(c.t.Ctx, tk); return err })
	c.t.quiet(c.driver.Exchanges)
	return func() driver.Ticket {
		c.okIn(tk.Queue, <-done, "Await of %s", tk.ID)
		return got
	}
}

// waits makes sure that the ticket is not held now.
func (c *client) waits(tk driver.Ticket) {
	ctx, cancel := c.t.soon()
	defer cancel()
	c.t.Is(suite.Of(c.Await(ctx, tk)), context.DeadlineExceeded, "Await of a ticket that does not fit the capacity")
}

// leave gives a ticket back.
func (c *client) leave(tk driver.Ticket) {
	err := c.t.call(func() error { return c.Leave(c.t.Ctx, tk, true) }, driver.ErrGone)
	c.inTime(err)
	c.t.OK(err, "Leave of %s in %q", tk.ID, tk.Queue)
}

// abandon gives a ticket back whose work may be half done.
func (c *client) abandon(tk driver.Ticket) {
	c.t.OK(c.Leave(c.t.Ctx, tk, false), "Leave of %s in %q", tk.ID, tk.Queue)
}

// shrink gives a part of a ticket back.
func (c *client) shrink(tk driver.Ticket, units int64) {
	c.t.OK(c.Shrink(c.t.Ctx, tk, units), "Shrink of %s in %q to %d", tk.ID, tk.Queue, units)
}

// ask sends a demand to a ticket, of any session.
func (c *client) ask(tk driver.Ticket, what driver.Demand) {
	c.t.OK(c.driver.Ask(c.t.Ctx, tk.Queue, tk.ID, what), "Ask (%d) of %s in %q", what, tk.ID, tk.Queue)
}

// close ends the session.
func (c *client) close() {
	c.t.OK(c.t.call(func() error { return c.Close(c.t.Ctx) }, driver.ErrSession), "Close")
}

// gone makes sure that the ticket does not stand.
func (c *client) gone(tk driver.Ticket) {
	err := suite.Of(c.Await(c.t.Ctx, tk))
	if !errors.Is(err, driver.ErrGone) {
		c.okIn(tk.Queue, err, "Await of %s, which does not stand: not ErrGone", tk.ID)
	}
}

// renew asks about the tickets and returns their states by ID.
func (c *client) renew(known ...driver.Ticket) map[string]driver.Renewed {
	var answer []driver.Renewed
	err := c.t.call(func() (err error) { answer, err = c.Renew(c.t.Ctx, known); return err })
	c.inTime(err)
	c.t.OK(err, "Renew")
	states := map[string]driver.Renewed{}
	for _, r := range answer {
		_, twice := states[r.ID]
		c.t.FatalIf(twice, "Renew answers twice for %s", r.ID)
		states[r.ID] = r
	}
	return states
}

// keeps renews the tickets, which all must be kept.
func (c *client) keeps(tickets ...driver.Ticket) {
	states := c.says(driver.Kept, tickets...)
	c.t.FatalIf(len(states) != len(tickets), "Renew of %d tickets: %+v", len(tickets), states)
}

// says renews the tickets, and Renew must say the same of each.
func (c *client) says(want driver.State, tickets ...driver.Ticket) (states map[string]driver.Renewed) {
	err := c.t.call(func() error {
		if states = c.renew(tickets...); len(states) < len(tickets) {
			return errors.New("some could not be asked about")
		}
		return nil
	})
	c.t.OK(err, "Renew of %d tickets", len(tickets))
	for _, tk := range tickets {
		r, told := states[tk.ID]
		c.t.FatalIf(!told || r.State != want || r.Queue != tk.Queue,
			"Renew of %s in %q: %+v, told %v; the state must be %v", tk.ID, tk.Queue, r, told, want)
	}
	return states
}

// okIn is OK, and a failure shows the queue.
func (c *client) okIn(queue string, err error, what string, args ...any) {
	if err != nil {
		c.t.Fatalf("%s: %v%s", fmt.Sprintf(what, args...), err, c.t.state(c.driver, queue))
	}
}

// beat renews the tickets until the rule ends or stop is called, as often as a
// caller would whose session has the shortest TTL: expiry and lost messages are
// noticed at the latest with it.
func (c *client) beat(known ...driver.Ticket) (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Ctx)
	over := c.t.Go(func() {
		renewals(ctx, c, c.t.TTL/3, known, func(err error) {
			if !errors.Is(err, driver.ErrSession) {
				c.t.Errorf("Renew: %v", err)
			}
		})
	})
	return func() { cancel(); over() }
}

// over makes sure that the tickets have ended, with the session or without it, also for whoever renews them.
func (c *client) over(tickets ...driver.Ticket) {
	c.endsIn(c.t.known(func() error {
		answer, err := c.Renew(c.t.Ctx, tickets)
		for _, r := range answer {
			c.t.FatalIf(r.State != driver.Gone, "Renew of a ticket that has ended: %+v; it must be Gone", r)
		}
		c.t.FatalIf(err == nil && len(answer) != len(tickets), "Renew of %d tickets that have ended: %+v", len(tickets), answer)
		return cmp.Or(err, driver.ErrGone)
	}), "Renew of a ticket that has ended")
	for _, tk := range tickets {
		c.endsIn(c.t.known(func() error { return c.Leave(c.t.Ctx, tk, true) }), "Leave of a ticket that has ended")
	}
}

// endsIn makes sure that the error is one of a ticket that has ended, with the session or without it.
func (c *client) endsIn(err error, what string) {
	if !errors.Is(err, driver.ErrSession) {
		c.t.Is(err, driver.ErrGone, "%s", what)
	}
}

// snapshot reads a queue.
func (t *trial) snapshot(d driver.Driver, queue string) driver.Queue {
	var q driver.Queue
	t.OK(t.call(func() (err error) { q, err = d.Follow(t.Ctx, queue, ""); return err }), "Follow of %q", queue)
	return q
}

// stands checks who is in the queue, in order, held ones in front. It waits for a grant that
// does not come with the change that allows it, if those of the backend may come later.
func (t *trial) stands(d driver.Driver, queue string, held, waiting []driver.Ticket) {
	want := slices.Concat(held, waiting)
	is := func(q driver.Queue) bool {
		ok := len(q.Members) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = q.Members[i].ID == want[i].ID && q.Members[i].Held == (i < len(held))
		}
		return ok
	}
	_, later := t.Unsupported["LeaveGrantsTheNext"]
	q := t.snapshot(d, queue)
	for began := time.Now(); later && !is(q) && time.Since(began) < t.Patience; q = t.snapshot(d, queue) {
		time.Sleep(time.Millisecond)
	}
	t.FatalIf(!is(q),
		"queue %q has %d held and %d waiting tickets to have, but is %+v", queue, len(held), len(waiting), q.Members)
}

// A claim is a ticket that gets its turn when the one in front runs out.
type claim struct {
	driver.Ticket // as Join returned it
	c             *client
	done          chan struct{}
	got           driver.Ticket  // as Await did
	held          driver.Instant // when that was
	err           error
	stop          func() // ends its renewals
}

// behind joins a queue in which a mortal ticket is in front, and notes when it
// is held.
func (c *client) behind(r driver.Request) *claim {
	k := &claim{Ticket: c.join(r), c: c, done: make(chan struct{})}
	k.stop = c.beat(k.Ticket)
	c.t.Calls.Go(func() {
		defer close(k.done)
		k.got, k.err = c.Await(c.t.Ctx, k.Ticket)
		k.held = c.driver.Now()
	})
	return k
}

// notBefore waits until the ticket is held, which must not have been before the
// instant until which another one is guaranteed.
func (k *claim) notBefore(until driver.Instant, why string) driver.Ticket {
	<-k.done
	k.c.okIn(k.Queue, k.err, "Await of %s, behind a ticket %s", k.ID, why)
	early := until.Sub(k.held)
	k.c.t.FatalIf(early > 0, "the next ticket is held %v before the end of the one in front, %s", early, why)
	return k.got
}

// begins has the ticket be held not before the instant. It is looked at when the rule has done all else, so that one
// rule can wait for several.
func (k *claim) begins(until driver.Instant, why string) {
	why += suite.Step()
	k.c.t.claims = append(k.c.t.claims, func() { k.notBefore(until, why) })
}

// holderAndWaiter opens two clients. One holds the queue, for which the other waits.
func (t *trial) holderAndWaiter(queue string) (a, b *client, held, waiting driver.Ticket) {
	a, b = t.client(), t.client()
	return a, b, a.hold(t.exclusive(queue)), b.wait(t.exclusive(queue))
}

// A lease is a held ticket of a mortal session, kept by renewals.
type lease struct {
	*client
	ticket driver.Ticket
	proof  driver.Instant // the last
}

func (c *client) lease(tk driver.Ticket) *lease { return &lease{c, tk, tk.Proof} }

// leaseOfWaiting joins a queue in which another one is in front. The Join renews nothing: the ticket may end with its
// session, which has begun with its opening.
func (c *client) leaseOfWaiting(r driver.Request) *lease {
	return &lease{c, c.wait(r), c.opened}
}

// end is the instant until which the backend guarantees the ticket.
func (l *lease) end() driver.Instant { return l.proof.Add(l.TTL) }

// renewOnce renews the ticket, again while there is time if the connection was lost or the
// ticket could not be asked about.
func (l *lease) renewOnce() (sent driver.Instant, states map[string]driver.Renewed, err error) {
	for ; ; time.Sleep(l.t.TTL / 50) {
		sent = l.driver.Now()
		answer, err := l.Renew(l.t.Ctx, []driver.Ticket{l.ticket})
		states = map[string]driver.Renewed{}
		for _, r := range answer {
			states[r.ID] = r
		}
		_, asked := states[l.ticket.ID]
		left := l.end().Sub(l.driver.Now())
		lost := err != nil && !driver.IsPermanent(err) && l.t.Ctx.Err() == nil && left > 0
		unasked := err == nil && !asked && left > l.TTL/8
		if !lost && !unasked {
			return sent, states, err
		}
	}
}

// renewFor renews the ticket again and again for d, at least once. A renewal in time
// must keep it: before the ticket ends, and before its session does, which may have
// begun earlier.
func (l *lease) renewFor(d time.Duration, each func(answer map[string]driver.Renewed)) {
	extended := l.opened
	for stop := l.driver.Now().Add(d); ; time.Sleep(l.t.TTL / 4) {
		sent, states, err := l.renewOnce()
		r, ok := states[l.ticket.ID]
		now := l.driver.Now()
		if errors.Is(err, driver.ErrSession) {
			l.t.inTime(l.driver, extended.Add(l.TTL))
		}
		if err != nil || !ok || r.State != driver.Kept {
			l.t.inTime(l.driver, l.end())
			l.t.Fatalf("Renew in time, %v before the end: %+v, %v", l.end().Sub(now), r, err)
		}
		l.t.FatalIf(r.Proof > now, "Renew returned the proof %v at %v", r.Proof, now)
		l.proof = max(l.proof, r.Proof) // each is a promise
		extended = sent
		if each != nil {
			each(states)
		}
		if now >= stop {
			return
		}
	}
}

// line has n tickets wait, each of another of the clients than the one before. Whoever makes progress has time.
func line(n int, clients []*client, request func() driver.Request) []driver.Ticket {
	t := clients[0].t
	tickets := make([]driver.Ticket, n)
	for i := range n {
		if i%100 == 0 {
			t.Allow(0)
		}
		tickets[i] = clients[i%len(clients)].wait(request())
	}
	t.Allow(0)
	return tickets
}

// spent are the exchanges of all the clients.
func spent(clients []*client) (sum uint64) {
	for _, c := range clients {
		sum += c.driver.Exchanges()
	}
	return sum
}
