package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/redistest"
)

// demand is a lock in demand: one holds, and others have joined behind. In this state
// pass.lua hands over, and append.lua joins.
type demand struct {
	t      *testing.T
	server *redistest.Server
	d      driver.Driver
	a, b   *driver.Opened // a holds, b waits
	held   driver.Ticket
	name   string
	permit bool // all permits of a semaphore, which other libraries do not see
}

const demandTTL = time.Minute

// inDemand runs a test with a mutex and with a semaphore, both held by a.
func inDemand(t *testing.T, test func(*demand)) {
	for _, permit := range []bool{false, true} {
		name := "mutex"
		if permit {
			name = "permits"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.FakeTime(0))
			x := &demand{t: t, server: s, name: "q", permit: permit}
			x.d, x.a = session(t, s.URL(), demandTTL)
			_, x.b = session(t, s.URL(), demandTTL)
			x.held = x.join(x.a, x.request())
			if !x.held.Held {
				t.Fatal("the first ticket is not held")
			}
			test(x)
		})
	}
}

func (x *demand) request() driver.Request {
	if !x.permit {
		return exclusive(x.name)
	}
	r := request(x.name, 3, 3)
	r.Kind = driver.Semaphore
	return r
}

func (x *demand) join(s *driver.Opened, r driver.Request) driver.Ticket {
	x.t.Helper()
	tk, err := s.Join(x.t.Context(), r)
	if err != nil {
		x.t.Fatal(err)
	}
	return tk
}

// ready has the holder's next Leave take the shortest way: the key that keeps other
// libraries out lasts long.
func (x *demand) ready(waiting ...driver.Ticket) {
	x.t.Helper()
	renew(x.t, x.a, x.held)
	renew(x.t, x.b, waiting...)
}

func (x *demand) leave(s *driver.Opened, tk driver.Ticket, clean bool) {
	x.t.Helper()
	if err := s.Leave(x.t.Context(), tk, clean); err != nil {
		x.t.Fatal(err)
	}
}

// soon is a context for what news bring; a heartbeat would come much later.
func (x *demand) soon() context.Context {
	ctx, cancel := context.WithTimeout(x.t.Context(), soon)
	x.t.Cleanup(cancel)
	return ctx
}

func (x *demand) members() []driver.Member {
	x.t.Helper()
	q, err := x.d.Follow(x.t.Context(), x.name, "")
	if err != nil {
		x.t.Fatal(err)
	}
	return q.Members
}

// Promise: a fixed time begins when the lock is handed over, and ends after that time.
func TestAFixedTimeBeginsWithTheHandOver(t *testing.T) {
	inDemand(t, func(x *demand) {
		r := x.request()
		r.Hold = 10 * demandTTL
		waits := x.join(x.b, r)
		x.ready(waits)
		x.leave(x.a, x.held, true)
		tk := awaited(x.t, x.b, waits)
		if m := x.members(); len(m) != 1 || !m[0].Fixed || m[0].Left > r.Hold || m[0].Left < r.Hold-demandTTL {
			x.t.Errorf("the queue is %+v", m)
		}
		x.server.StepClock(5 * demandTTL) // nobody renews it
		next := x.join(x.a, x.request())
		if next.Held {
			x.t.Error("another one holds before the fixed time is over")
		}
		if !x.permit && do(x.t, x.server, "SET", x.name, "of another library", "NX", "PX", "1000") != nil {
			x.t.Error("another library holds before the fixed time is over")
		}
		renew(x.t, x.b, tk)
	})
}

// Promise: whoever gets the lock from a holder that did not leave cleanly is told so, also
// if the news of the hand-over are lost.
func TestAnUncleanLeaveIsInheritedByWhoWaited(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			inDemand(t, func(x *demand) {
				p := redistest.NewProxy(x.t, x.server.Addr)
				p.DropPushes(lost)
				_, x.b = session(x.t, "redis://"+p.Addr, demandTTL)
				r := x.request()
				r.Robust = true
				first := x.join(x.b, r)
				second := x.join(x.b, x.request())
				x.ready(first, second)
				x.leave(x.a, x.held, false)
				if lost {
					renew(x.t, x.b, first, second)
				}
				got := awaited(x.t, x.b, first)
				if !got.Inherited {
					x.t.Error("not inherited from a holder that did not leave cleanly")
				}
				x.leave(x.b, got, true)
				if lost {
					renew(x.t, x.b, second)
				}
				if got := awaited(x.t, x.b, second); got.Inherited {
					x.t.Error("inherited from a holder that left cleanly")
				}
			})
		})
	}
}

// Promise: whoever holds is told that others wait, at once and without a heartbeat:
// when they come, and when it gets the lock with others behind it.
func TestHoldersAreToldAtOnceThatOthersWait(t *testing.T) {
	inDemand(t, func(x *demand) {
		told := func(s *driver.Opened, id string) {
			x.t.Helper()
			for {
				got, err := s.Signals(x.soon())
				if err != nil {
					x.t.Fatalf("nobody tells the holder that others wait: %v", err)
				}
				if got == (driver.Signal{Demand: driver.Wanted, Queue: x.name, ID: id}) {
					return
				}
			}
		}
		first := x.join(x.b, x.request())
		told(x.a, x.held.ID)
		_, c := session(x.t, x.server.URL(), demandTTL)
		second := x.join(c, x.request())
		x.ready(first)
		renew(x.t, c, second)
		x.leave(x.a, x.held, true)
		awaited(x.t, x.b, first)
		told(x.b, first.ID)
		x.leave(x.b, first, true)
		x.held = awaited(x.t, c, second)
		x.join(x.b, x.request())
		told(c, second.ID)
	})
}

// followAgain is less than the time after which a call of Follow looks by itself.
const followAgain = 12 * time.Second

// Promise: a hand-over is a change that is told to whoever follows the queue, and so is
// a Join.
func TestWhoFollowsIsToldOfHandOvers(t *testing.T) {
	inDemand(t, func(x *demand) {
		first := x.join(x.b, x.request())
		x.ready(first)
		follower, _ := session(x.t, x.server.URL(), demandTTL)
		after, err := follower.Follow(x.t.Context(), x.name, "")
		if err != nil {
			x.t.Fatal(err)
		}
		changed := func(what string, change func()) {
			x.t.Helper()
			got := make(chan driver.Queue, 1)
			ctx := x.soon()
			go func() {
				q, err := follower.Follow(ctx, x.name, after.Version)
				if err != nil {
					x.t.Errorf("%s: Follow: %v", what, err)
				}
				got <- q
			}()
			followed := func() bool { return do(x.t, x.server, "EXISTS", "interlock:{q}:f") == int64(1) }
			for began := time.Now(); !followed() && time.Since(began) < soon; time.Sleep(time.Millisecond) {
			}
			time.Sleep(50 * time.Millisecond) // so that it waits; if not, the test is easier to pass
			change()
			select {
			case after = <-got:
			case <-time.After(followAgain):
				x.t.Fatalf("%s: who follows is not told", what)
			}
		}
		changed("a hand-over", func() { x.leave(x.a, x.held, true) })
		awaited(x.t, x.b, first)
		second := x.join(x.a, x.request())
		if after, err = follower.Follow(x.t.Context(), x.name, ""); err != nil {
			x.t.Fatal(err)
		}
		changed("a Join behind others", func() { x.join(x.a, x.request()) })
		renew(x.t, x.b, first)
		renew(x.t, x.a, second)
		changed("another hand-over", func() { x.leave(x.b, first, true) })
	})
}

// Promise: a ticket that has died in front of others holds up nobody, though the others'
// next heartbeats are far away: whoever leaves removes it, and who is next has a timer
// for the end of whoever holds.
func TestADeadTicketInFrontHoldsUpNobody(t *testing.T) {
	const short = 500 * time.Millisecond
	for name, c := range map[string]struct {
		ttl      time.Duration // of the ticket that dies
		waits    bool          // it dies before the lock would be its own
		behind   bool          // another one stands before it
		followed bool          // a queue that is followed is joined in another way
	}{
		"while it waits":                       {ttl: demandTTL, waits: true},
		"while it waits, of a shorter TTL":     {ttl: short, waits: true},
		"while it waits behind another":        {ttl: short, waits: true, behind: true},
		"while it holds":                       {ttl: short},
		"while it holds after another":         {ttl: short, behind: true},
		"while it holds a queue with a follow": {ttl: short, followed: true},
	} {
		t.Run(name, func(t *testing.T) {
			inDemand(t, func(x *demand) {
				_, mortal := session(x.t, x.server.URL(), c.ttl)
				var line []driver.Ticket
				if c.behind {
					line = append(line, x.join(x.b, x.request()))
				}
				dies := x.join(mortal, x.request())
				// On a slow machine it may die sooner; then the test is easier to pass.
				live := func() { _, _ = mortal.Renew(x.t.Context(), []driver.Ticket{dies}) }
				if c.followed {
					x.follow()
					live()
				}
				if c.ttl == demandTTL { // it dies sooner than those that are renewed now
					x.server.StepClock(demandTTL / 2)
				}
				next := x.join(x.b, x.request())
				x.ready(append(line, next)...)
				if c.waits {
					x.server.StepClock(min(c.ttl, demandTTL*3/4))
				} else {
					live()
				}
				x.leave(x.a, x.held, true)
				for _, before := range line {
					x.leave(x.b, awaited(x.t, x.b, before), true)
				}
				if _, err := x.b.Await(x.soon(), next); err != nil {
					x.t.Errorf("the ticket in front has died, and the next does not get the lock: %v; the queue is %+v", err, x.members())
				}
			})
		})
	}
}

// follow has the queue followed until the test ends.
func (x *demand) follow() {
	x.t.Helper()
	go func() {
		for v := ""; x.t.Context().Err() == nil; {
			q, _ := x.d.Follow(x.t.Context(), x.name, v)
			v = q.Version
		}
	}()
	for began := time.Now(); do(x.t, x.server, "EXISTS", "interlock:{q}:f") != int64(1); time.Sleep(time.Millisecond) {
		if time.Since(began) > soon {
			x.t.Fatal("the queue is not followed")
		}
	}
}

// Promise: a Join gets the lock at once if all in front of it have died.
func TestAJoinBehindTheDeadIsGranted(t *testing.T) {
	inDemand(t, func(x *demand) {
		x.ready(x.join(x.b, x.request()))
		x.server.StepClock(demandTTL * 2)
		if tk := x.join(x.b, x.request()); !tk.Held {
			x.t.Errorf("it waits: %+v", x.members())
		}
	})
}

// Promise: tokens grow over hand-overs, also when the server's clock is set back between.
func TestTokensGrowOverHandOvers(t *testing.T) {
	inDemand(t, func(x *demand) {
		first, second := x.join(x.b, x.request()), x.join(x.b, x.request())
		x.ready(first, second)
		x.server.StepClock(-time.Hour)
		x.leave(x.a, x.held, true)
		one := awaited(x.t, x.b, first)
		x.leave(x.b, one, true)
		two := awaited(x.t, x.b, second)
		if one.Token <= x.held.Token || two.Token <= one.Token {
			x.t.Errorf("the tokens are %d, %d and %d", x.held.Token, one.Token, two.Token)
		}
	})
}

// Promise: the token of a hand-over follows the server's clock, and the offset of a raise: so
// a replica that becomes the master overtakes hand-overs that it has not received.
func TestTokensOfHandOversFollowTheClock(t *testing.T) {
	const second = 100_000 // in numbers of the clock
	inDemand(t, func(x *demand) {
		for _, offset := range []uint64{0, 1 << 50} {
			if offset > 0 {
				if err := x.d.Raise(x.t.Context(), x.name, offset); err != nil {
					x.t.Fatal(err)
				}
			}
			before := x.join(x.b, x.request())
			next := x.join(x.b, x.request())
			x.ready(before, next)
			x.leave(x.a, x.held, true)
			before = awaited(x.t, x.b, before)
			x.server.StepClock(10 * time.Second)
			x.leave(x.b, before, true)
			got := awaited(x.t, x.b, next)
			if got.Token < before.Token+10*second {
				x.t.Errorf("with an offset of %d: the token is %d ten seconds after %d", offset, got.Token, before.Token)
			}
			x.held = x.join(x.a, x.request())
			x.leave(x.b, got, true)
			x.held = awaited(x.t, x.a, x.held)
		}
	})
}

// Promise: another library is kept out until the ticket of the holder ends, also one that
// got the lock by a hand-over and has not been renewed since.
func TestAnotherLibraryIsKeptOutUntilTheTicketEnds(t *testing.T) {
	t.Parallel()
	taken := func(t *testing.T, s *redistest.Server, name string) bool {
		t.Helper()
		return do(t, s, "SET", name, "of another library", "NX", "PX", "60000") != nil
	}
	t.Run("handed over", func(t *testing.T) {
		inDemand(t, func(x *demand) {
			if x.permit {
				return // it has no key that others see
			}
			waits := x.join(x.b, x.request())
			x.ready(waits)
			x.server.StepClock(demandTTL * 9 / 10)
			renew(x.t, x.b, waits)
			x.leave(x.a, x.held, true)
			awaited(x.t, x.b, waits)
			x.server.StepClock(demandTTL * 9 / 10)
			if taken(x.t, x.server, x.name) {
				x.t.Error("taken by another library before the ticket's end")
			}
		})
	})
	const ttl, hold = time.Minute, time.Hour
	fixed := func(r driver.Request) driver.Request { r.Hold = hold; return r }
	reader := func() driver.Request { return request("q", 1, driver.RWCapacity) }
	for name, c := range map[string]struct {
		request driver.Request
		queued  bool
		keep    time.Duration
		stands  time.Duration
	}{
		"alone":                        {request: exclusive("q"), stands: ttl},
		"a reader":                     {request: reader(), stands: ttl},
		"queued":                       {request: exclusive("q"), queued: true, stands: ttl},
		"alone, for a fixed time":      {request: fixed(exclusive("q")), stands: hold},
		"a reader, for a fixed time":   {request: fixed(reader()), stands: hold},
		"queued, for a fixed time":     {request: fixed(exclusive("q")), queued: true, stands: hold},
		"alone, then kept for longer":  {request: exclusive("q"), keep: hold, stands: hold},
		"a reader, kept for longer":    {request: reader(), keep: hold, stands: hold},
		"queued, then kept for longer": {request: exclusive("q"), queued: true, keep: hold, stands: hold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.FakeTime(0))
			_, a := session(t, s.URL(), ttl)
			_, b := session(t, s.URL(), ttl)
			held, err := a.Join(t.Context(), c.request)
			if err != nil || !held.Held {
				t.Fatal(held, err)
			}
			if c.queued {
				next, err := b.Join(t.Context(), exclusive("q"))
				if err != nil || next.Held {
					t.Fatal(next, err)
				}
			}
			if c.keep > 0 {
				if err := a.Keep(t.Context(), held, c.keep); err != nil {
					t.Fatal(err)
				}
			}
			s.StepClock(c.stands - 2*time.Second)
			if taken(t, s, "q") {
				t.Errorf("taken by another library before the ticket's end, which is after %v", c.stands)
			}
		})
	}
}

// Promise: the end of a lease of a fixed time that nobody has given back is a death; that
// of a ticket which was only kept is not.
func TestTheEndOfAFixedTimeIsInheritedUnlessItWasKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hold, kept, queued bool
		inherited          bool
	}{
		"alone":                 {hold: true, inherited: true},
		"queued":                {hold: true, queued: true, inherited: true},
		"alone, kept":           {kept: true},
		"queued, kept":          {kept: true, queued: true},
		"alone, Hold and kept":  {hold: true, kept: true, inherited: true},
		"queued, Hold and kept": {hold: true, kept: true, queued: true, inherited: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.FakeTime(0))
			_, a := session(t, s.URL(), time.Hour)
			_, b := session(t, s.URL(), time.Hour)
			r := exclusive("q")
			r.Robust = true
			if c.hold {
				r.Hold = time.Minute
			}
			held, err := a.Join(t.Context(), r)
			if err != nil || !held.Held {
				t.Fatal(held, err)
			}
			r = exclusive("q")
			r.Robust = true
			var next driver.Ticket
			if c.queued {
				if next, err = b.Join(t.Context(), r); err != nil || next.Held {
					t.Fatal(next, err)
				}
			}
			if c.kept {
				if err := a.Keep(t.Context(), held, 2*time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			s.StepClock(3 * time.Minute)
			if c.queued {
				renew(t, b, next)
				next = awaited(t, b, next)
			} else if next, err = b.Join(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if !next.Held || next.Inherited != c.inherited {
				t.Errorf("the next ticket is %+v, which should inherit: %v", next, c.inherited)
			}
		})
	}
}

// Promise: an evicted ticket is not made to last longer, by Keep or by another Join.
func TestNothingMakesAnEvictedTicketLastLonger(t *testing.T) {
	inDemand(t, func(x *demand) {
		for _, queued := range []bool{false, true} {
			if queued {
				x.join(x.b, x.request())
			}
			if err := x.d.Ask(x.t.Context(), x.name, x.held.ID, driver.Evict); err != nil {
				x.t.Fatal(err)
			}
			if err := x.a.Keep(x.t.Context(), x.held, time.Hour); !errors.Is(err, driver.ErrGone) {
				x.t.Errorf("Keep of an evicted ticket for longer: %v", err)
			}
			if m := x.members(); len(m) == 0 || m[0].ID != x.held.ID || m[0].Left > demandTTL+time.Second {
				x.t.Errorf("the queue is %+v", m)
			}
		}
	})
}

// Promise: eviction does not make a ticket with a fixed end last longer.
func TestAnEvictionProlongsNoFixedTime(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, a := session(t, s.URL(), time.Hour)
	for name, r := range map[string]driver.Request{
		"alone":  exclusive("alone"),
		"reader": request("reader", 1, driver.RWCapacity),
	} {
		r.Hold = time.Minute
		held, err := a.Join(t.Context(), r)
		if err != nil || !held.Held {
			t.Fatal(held, err)
		}
		if err := d.Ask(t.Context(), name, held.ID, driver.Evict); err != nil {
			t.Fatal(err)
		}
		q, err := d.Follow(t.Context(), name, "")
		if err != nil || len(q.Members) != 1 {
			t.Fatalf("%s: %+v %v", name, q, err)
		}
		if left := q.Members[0].Left; left > r.Hold+time.Second {
			t.Errorf("%s: %v are left of a fixed time of %v", name, left, r.Hold)
		}
	}
}

// Promise: whoever shrinks an exclusive ticket has ended its exclusive work well, so that
// nobody inherits from it.
func TestAShrinkEndsTheExclusiveWorkWell(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), time.Hour)
	_, b := session(t, s.URL(), time.Hour)
	writer := func() driver.Request {
		r := request("q", driver.RWCapacity, driver.RWCapacity)
		r.Robust = true
		return r
	}
	x := &demand{t: t}
	dies := x.join(a, writer())
	second := x.join(a, writer())
	third := x.join(b, writer())
	x.leave(a, dies, false)
	if second = awaited(t, a, second); !second.Inherited {
		t.Error("not inherited from a holder that did not leave cleanly")
	}
	if err := a.Shrink(t.Context(), second, 1); err != nil {
		t.Fatal(err)
	}
	x.leave(a, second, true)
	if third = awaited(t, b, third); third.Inherited {
		t.Error("inherited although the last writer went on as a reader, and has left")
	}
}

// Promise: if the server has lost a part of a queue and the last token, whoever comes next
// is told that the last holder may not have been done.
func TestWhoeverHeldALostQueueMayNotHaveBeenDone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	_, a := session(t, s.URL(), time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	x := &demand{t: t}
	x.join(a, exclusive("q"))
	x.join(b, exclusive("q"))
	do(t, s, "DEL", "interlock:{q}:e", "interlock:{q}:t")
	if _, err := a.Renew(t.Context(), nil); err != nil { // notices it
		t.Fatal(err)
	}
	s.StepClock(2 * time.Minute)
	r := exclusive("q")
	r.Robust = true
	if tk := x.join(b, r); !tk.Held || !tk.Inherited {
		t.Errorf("the next ticket is %+v", tk)
	}
}

// Promise: a Join of a lock in demand is refused like any other: if the queue has another
// kind or capacity, and if its ticket has left before it came.
func TestAJoinOfALockInDemandIsRefused(t *testing.T) {
	inDemand(t, func(x *demand) {
		x.join(x.b, x.request())
		for _, change := range []func(*driver.Request){
			func(r *driver.Request) { r.Kind = driver.Election },
			func(r *driver.Request) { r.Capacity++ },
		} {
			r := x.request()
			change(&r)
			if tk, err := x.b.Join(x.t.Context(), r); !errors.Is(err, driver.ErrMismatch) {
				x.t.Errorf("Join of %s with the capacity %d: %+v, %v", r.Kind, r.Capacity, tk, err)
			}
		}
		r := x.request()
		if err := x.a.Leave(x.t.Context(), driver.Ticket{ID: r.ID, Queue: r.Queue}, true); !errors.Is(err, driver.ErrGone) {
			x.t.Fatal(err)
		}
		if tk, err := x.b.Join(x.t.Context(), r); !errors.Is(err, driver.ErrGone) {
			x.t.Errorf("Join of a ticket that has left: %+v, %v", tk, err)
		}
		if m := x.members(); len(m) != 2 {
			x.t.Errorf("the queue is %+v", m)
		}
	})
}

// Promise: a ticket of a long TTL stands for that long, also if it has joined behind others
// of short ones, and they have left.
func TestALongTicketOutlivesShortOnes(t *testing.T) {
	inDemand(t, func(x *demand) {
		const long = 24 * time.Hour
		_, lasts := session(x.t, x.server.URL(), long)
		first := x.join(x.b, x.request())
		last := x.join(lasts, x.request())
		x.ready(first)
		x.leave(x.a, x.held, true)
		x.leave(x.b, awaited(x.t, x.b, first), true)
		last = awaited(x.t, lasts, last)
		x.server.StepClock(long / 3)
		if next := x.join(x.b, x.request()); next.Held {
			x.t.Error("two hold")
		}
		renew(x.t, lasts, last)
	})
}

// Promise: a hand-over costs whoever waits no exchange.
func TestAHandOverCostsTheWaiterNothing(t *testing.T) {
	inDemand(t, func(x *demand) {
		d, waiter := session(x.t, x.server.URL(), demandTTL)
		waits := x.join(waiter, x.request())
		before := d.Exchanges()
		x.leave(x.a, x.held, true)
		awaited(x.t, waiter, waits)
		if used := d.Exchanges() - before; used > 0 {
			x.t.Errorf("the waiter needed %d exchanges", used)
		}
	})
}

// Promise: a NoWait Join gets the lock if all in front of it have died, also if there are
// more of them than one script removes.
func TestNoWaitSeesPastTheDead(t *testing.T) {
	inDemand(t, func(x *demand) {
		joinMany(x.t, x.b, 250, x.request)
		x.server.StepClock(demandTTL * 2)
		r := x.request()
		r.NoWait = true
		if tk := x.join(x.b, r); !tk.Held {
			x.t.Errorf("the ticket is %+v", tk)
		}
	})
}
