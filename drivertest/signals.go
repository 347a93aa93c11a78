package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
)

const delivered = "Each is delivered at least once, at the latest with the next Renew."

// signal waits for a demand for the ticket. Other signals, and the same one
// again, may come before it; one for a stranger's ticket may not.
func (c *client) signal(want driver.Demand, tk driver.Ticket, own ...driver.Ticket) {
	c.t.Helper()
	c.signals([]driver.Demand{want}, tk, own...)
}

// signals waits for several signals, in any order: one of another kind is not lost.
func (c *client) signals(want []driver.Demand, tk driver.Ticket, own ...driver.Ticket) {
	c.t.Helper()
	stop := c.beat(append(own, tk)...)
	defer stop()
	for want = slices.Clone(want); len(want) > 0; {
		s, err := c.Signals(c.t.ctx)
		if err != nil {
			c.t.Fatalf("Signals, waiting for demands %d: %v", want, err)
		}
		if s.Demand == driver.Doubt {
			continue
		}
		known := s.ID == tk.ID
		for _, o := range own {
			known = known || s.ID == o.ID
		}
		if !known {
			c.t.Fatalf("Signals: %+v is for a ticket of another session", s)
		}
		if i := slices.Index(want, s.Demand); i >= 0 && s.ID == tk.ID {
			if s.Queue != tk.Queue {
				c.t.Fatalf("Signals: %+v for a ticket in %q", s, tk.Queue)
			}
			want = slices.Delete(want, i, i+1)
		}
	}
}

var wanted = rule{
	name:      "Wanted",
	says:      []string{"another ticket waits behind this held one; not for Ask", delivered},
	exclusive: true,
	across:    true,
	check: func(t *trial) {
		a, b, c := t.client(), t.client(), t.client()
		first := a.hold(t.exclusive("q"))
		second := b.wait(t.exclusive("q"))
		a.signal(driver.Wanted, first)
		third := c.wait(t.exclusive("q")) // behind the second before that one is held
		a.leave(first)
		b.signal(driver.Wanted, b.await(second))
		b.leave(second)
		c.await(third)

		// Nobody wants it: nothing is said.
		ctx, cancel := t.soon()
		defer cancel()
		for {
			s, err := c.Signals(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			if err != nil || s.Demand == driver.Wanted {
				t.Fatalf("Signals of a ticket that nobody waits for: %+v, %v", s, err)
			}
		}
	},
}

// Others are as quick as the answer: the news that somebody waits, or asks for the
// ticket, can be there before its holder knows of it.
var signalsBeforeTheAnswer = rule{
	name: "SignalsBeforeTheAnswer",
	hook: "Late",
	says: []string{"One can come before the answer of its ticket's Join.", delivered},
	check: func(t *trial) {
		clients := []*client{t.client(), t.client()}
		for _, c := range clients { // their connections are made
			tk := c.hold(t.exclusive("before"))
			c.renew(tk)
			c.leave(tk)
		}
		requests := []driver.Request{t.exclusive("q"), t.exclusive("q")}
		tickets := make([]driver.Ticket, 2)
		joined := make(chan error, 2)
		asked := make(chan error, 1)
		resume := t.world.Late()
		for i, c := range clients {
			t.calls.Go(func() {
				r := requests[i]
				joined <- t.known(func() (err error) {
					tickets[i], err = c.Join(t.ctx, r)
					r.Retry = true
					return err
				})
			})
			time.Sleep(20 * time.Millisecond) // the first holds; if not, the other one does
		}
		t.calls.Go(func() {
			asked <- t.known(func() error { return clients[1].driver.Ask(t.ctx, "q", requests[0].ID, driver.Revoke) })
		})
		time.Sleep(20 * time.Millisecond)
		resume()
		for range clients {
			if err := <-joined; err != nil {
				t.Fatalf("Join, with a late answer: %v", err)
			}
		}
		revoked := <-asked
		if revoked != nil && !errors.Is(revoked, driver.ErrGone) { // it came before the Join
			t.Fatalf("Ask: %v", revoked)
		}
		for i, c := range clients {
			var due []driver.Demand
			if i == 0 && revoked == nil {
				due = append(due, driver.Revoke)
			}
			if tickets[i].Held {
				due = append(due, driver.Wanted)
			}
			c.signals(due, tickets[i])
		}
	},
}

// All that are held in front of a waiter are wanted, and so is one that is
// waiting when the signal before it was given.
var wantedReaders = rule{
	name: "WantedReaders",
	says: []string{"another ticket waits behind this held one; not for Ask", delivered},
	check: func(t *trial) {
		a, b, c := t.client(), t.client(), t.client()
		r1, r2, r3 := a.hold(reader("q")), b.hold(reader("q")), a.hold(reader("q"))
		w := c.wait(writer("q"))
		b.signal(driver.Wanted, r2)
		a.signal(driver.Wanted, r1, r3)
		a.signal(driver.Wanted, r3, r1)
		c.leave(w)
	},
}

var ask = rule{
	name: "Ask",
	says: []string{"Ask sends Revoke or Evict to the ticket, or removes it at once (Force).", "A ticket that does not stand: ErrGone.", "Tickets of another library have IDs of another form, which every driver takes.", "please give it up", "it is not renewed any more", "another ticket waits behind this held one; not for Ask", "the connection is in doubt, all tickets are concerned; not for Ask"},

	exclusive: true,
	check: func(t *trial) {
		a, b := t.client(), t.client()
		held := a.hold(t.exclusive("q"))
		for _, what := range []driver.Demand{driver.Revoke, driver.Evict} {
			if err := b.driver.Ask(t.ctx, "q", held.ID, what); err != nil {
				t.Fatalf("Ask: %v", err)
			}
			a.signal(what, held)
			if err := b.driver.Ask(t.ctx, "q", held.ID, what); err != nil {
				t.Fatalf("Ask, repeated: %v", err)
			}
		}
		for _, what := range []driver.Demand{driver.Revoke, driver.Evict, driver.Force} {
			for _, queue := range []string{"q", "empty"} {
				if err := b.driver.Ask(t.ctx, queue, newID(), what); !errors.Is(err, driver.ErrGone) {
					t.Fatalf("Ask (%d) for a ticket that does not stand: %v", what, err)
				}
			}
		}
		for _, id := range []string{"pid-1", "42a6a219558d8831", "a program of others"} {
			if err := b.driver.Ask(t.ctx, "q", id, driver.Evict); !errors.Is(err, driver.ErrGone) {
				t.Fatalf("Ask for a ticket of another library that does not stand, %q: %v", id, err)
			}
		}
		a.leave(held)
		if err := b.driver.Ask(t.ctx, "q", held.ID, driver.Revoke); !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Ask for a ticket that has left: %v", err)
		}
	},
}

var force = rule{
	name:   "Force",
	says:   []string{"it is taken away at once: unsafe; for Ask only"},
	across: true,

	exclusive: true,
	check: func(t *trial) {
		a, b, c := t.client(), t.client(), t.client()
		held := a.hold(t.exclusive("q"))
		next := b.wait(t.exclusive("q"))
		last := c.wait(t.exclusive("q"))
		if err := c.driver.Ask(t.ctx, "q", held.ID, driver.Force); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		t.stands(a.driver, "q", []driver.Ticket{next}, []driver.Ticket{last})
		b.await(next)
		a.gone(held)
		if r := a.renew(held)[held.ID]; r.State != driver.Gone {
			t.Fatalf("Renew of a ticket that was taken away: %+v", r)
		}
		if err := a.Leave(t.ctx, held, true); !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Leave of a ticket that was taken away: %v", err)
		}
		if err := a.driver.Ask(t.ctx, "q", last.ID, driver.Force); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		c.gone(last)
		if !t.fixes() {
			return
		}
		fixed := a.hold(t.fixed("fixed", 10*limit))
		if err := b.driver.Ask(t.ctx, "fixed", fixed.ID, driver.Force); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		t.stands(a.driver, "fixed", nil, nil)
	},
}

var evictionOfAHeldTicket = rule{
	name: "EvictionOfAHeldTicket",
	says: []string{"An evicted ticket that is held is not renewed any more: it leaves when its session leaves it, or when its TTL has run out, whichever comes first"},

	exclusive: true,
	check: func(t *trial) {
		b, c, m := t.client(), t.client(), t.mortal()

		// Its session goes on renewing it in vain.
		lost := m.lease(m.hold(t.exclusive("r")))
		lost.renewFor(0, nil)
		heir := b.behind(t.exclusive("r"))
		if err := c.driver.Ask(t.ctx, "r", lost.ticket.ID, driver.Evict); err != nil {
			t.inTime(c.driver, lost.end())
			t.Fatalf("Ask: %v", err)
		}
		for {
			answer, err := m.Renew(t.ctx, []driver.Ticket{lost.ticket})
			if errors.Is(err, driver.ErrSession) || err == nil && len(answer) == 1 && answer[0].State == driver.Gone {
				break
			}
			if driver.IsPermanent(err) || err == nil && (len(answer) != 1 || answer[0].State != driver.Evicted) {
				t.Fatalf("Renew of an evicted ticket: %+v, %v", answer, err)
			}
			time.Sleep(t.TTL / 5)
		}
		heir.notBefore(lost.end(), "which was evicted")

		// Its session leaves it: the next one comes at once.
		a := t.client()
		held := a.hold(t.exclusive("q"))
		next := b.wait(t.exclusive("q"))
		if err := c.driver.Ask(t.ctx, "q", held.ID, driver.Evict); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		t.stands(c.driver, "q", []driver.Ticket{held}, []driver.Ticket{next})
		a.leave(held)
		t.stands(c.driver, "q", []driver.Ticket{next}, nil)
	},
}

var evictionOfAWaitingTicket = rule{
	name: "EvictionOfAWaitingTicket",
	says: []string{"An evicted ticket that waits leaves at once."},
	check: func(t *trial) {
		a, b, c := t.client(), t.client(), t.client()
		held := a.hold(permits("q", 1, 5))
		big := b.wait(permits("q", 5, 5))
		small := c.wait(permits("q", 1, 5))
		done := make(chan error, 1)
		t.calls.Go(func() {
			_, err := b.Await(t.ctx, big)
			done <- err
		})
		if err := a.driver.Ask(t.ctx, "q", big.ID, driver.Evict); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		t.stands(a.driver, "q", []driver.Ticket{held, small}, nil)
		stop := b.beat(big)
		if err := <-done; !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Await of a waiting ticket that is evicted: %v", err)
		}
		stop()
		c.await(small)
	},
}

var evictionOfAFixedTicket = rule{
	name: "EvictionOfAFixedTicket",
	says: []string{"one with a fixed end is not shortened by more than that."},
	check: func(t *trial) {
		a, b := t.mortal(), t.client()
		long, short := a.hold(t.fixed("long", 10*limit)), a.hold(t.fixed("short", t.TTL/2))
		asked := b.driver.Now()
		if err := b.driver.Ask(t.ctx, "long", long.ID, driver.Evict); err != nil {
			t.Fatalf("Ask: %v", err)
		}
		if err := b.driver.Ask(t.ctx, "short", short.ID, driver.Evict); err != nil {
			t.inTime(b.driver, short.Proof.Add(t.TTL/2))
			t.Fatalf("Ask: %v", err)
		}
		end := asked.Add(a.TTL)
		first, second := b.behind(t.exclusive("short")), b.behind(t.exclusive("long"))
		first.notBefore(short.Proof.Add(t.TTL/2), "which was evicted and has a fixed end")
		second.notBefore(end, "which was evicted and has a fixed end")
	},
}
