package redislock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// demand is a lock in demand: one holds, and others have joined behind. In this state
// fast_leave.lua hands over, and fast_join.lua joins.
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
	tk := errtest.Must(s.Join(x.t.Context(), r))(x.t)
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
	noError(x.t, s.Leave(x.t.Context(), tk, clean))
}

// soon is a context for what news bring; a heartbeat would come much later.
func (x *demand) soon() context.Context {
	ctx, cancel := context.WithTimeout(x.t.Context(), soon)
	x.t.Cleanup(cancel)
	return ctx
}

func (x *demand) members() []driver.Member {
	x.t.Helper()
	q := errtest.Must(x.d.Follow(x.t.Context(), x.name, ""))(x.t)
	return q.Members
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
	busy.Until(x.t, "the queue is followed", func() bool { return do(x.t, x.server, "EXISTS", "interlock:{q}:f") == int64(1) })
}

// Promise: the token of a hand-over grows, and follows the server's clock, and the offset of a raise: so
// a replica that becomes the master overtakes hand-overs that it has not received.
func TestTokensOfHandOversFollowTheClock(t *testing.T) {
	const second = 100_000 // in numbers of the clock
	inDemand(t, func(x *demand) {
		for _, offset := range []uint64{0, 1 << 50} {
			if offset > 0 {
				noError(x.t, x.d.Raise(x.t.Context(), x.name, offset))
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
			x.ready()
			x.server.StepClock(-time.Hour)
			x.leave(x.b, got, true)
			x.server.StepClock(time.Hour)
			if x.held = awaited(x.t, x.a, x.held); x.held.Token <= got.Token {
				x.t.Errorf("with an offset of %d: the token is %d after %d, the clock was set back", offset, x.held.Token, got.Token)
			}
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
			for _, hold := range []time.Duration{0, 10 * demandTTL} {
				r := x.request()
				r.Hold = hold
				waits := x.join(x.b, r)
				x.ready(waits)
				x.server.StepClock(demandTTL * 9 / 10)
				renew(x.t, x.b, waits)
				x.leave(x.a, x.held, true)
				waits = awaited(x.t, x.b, waits)
				x.server.StepClock(max(hold, demandTTL) * 9 / 10)
				if taken(x.t, x.server, x.name) {
					x.t.Errorf("a Hold of %v: taken by another library before the ticket's end", hold)
				}
				renew(x.t, x.b, waits)
				x.leave(x.b, waits, true)
				x.held = x.join(x.a, x.request())
			}
		})
	})
	const ttl, hold = time.Minute, time.Hour
	server := redistest.Start(t, redistest.FakeTime(0))
	_, a := session(t, server.URL(), ttl)
	_, b := session(t, server.URL(), ttl)
	var names []string
	for _, stands := range []time.Duration{ttl, hold} {
		for _, form := range []string{"alone", "reader", "queued", "alone, kept", "reader, kept", "queued, kept"} {
			kept := strings.HasSuffix(form, "kept")
			if kept && stands == ttl {
				continue
			}
			name := fmt.Sprint(form, ", ", stands)
			r := exclusive(name)
			if strings.HasPrefix(form, "reader") {
				r = request(name, 1, driver.RWCapacity)
			}
			if stands == hold && !kept {
				r.Hold = hold
			}
			x := &demand{t: t}
			held := x.join(a, r)
			if strings.HasPrefix(form, "queued") {
				x.join(b, exclusive(name))
			}
			if kept {
				noError(t, a.Keep(t.Context(), held, hold))
			}
			names = append(names, name)
		}
		server.StepClock(stands - 2*time.Second)
		for _, name := range names {
			if taken(t, server, name) {
				t.Errorf("%s: taken by another library before the ticket's end", name)
			}
		}
		names = nil
	}
}

// Promise: the end of a lease of a fixed time that nobody has given back is a death, also if it was kept for another
// one.
func TestAKeptLeaseOfAFixedTimeEndsInADeath(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	_, a := session(t, s.URL(), time.Hour)
	_, b := session(t, s.URL(), time.Hour)
	x := &demand{t: t}
	for _, queued := range []bool{false, true} {
		r := exclusive(fmt.Sprint(queued))
		r.ReportDeath, r.Hold = true, time.Minute
		held := x.join(a, r)
		r.ID, r.Hold = newID(), 0
		var next driver.Ticket
		if queued {
			next = x.join(b, r)
		}
		noError(t, a.Keep(t.Context(), held, 2*time.Minute))
		s.StepClock(3 * time.Minute)
		if queued {
			renew(t, b, next)
			next = awaited(t, b, next)
		} else {
			next = x.join(b, r)
		}
		if !next.Held || !next.Inherited {
			t.Errorf("queued %v: the next ticket is %+v", queued, next)
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
		r.ReportDeath = true
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
	noError(t, a.Shrink(t.Context(), second, 1))
	x.leave(a, second, true)
	if third = awaited(t, b, third); third.Inherited {
		t.Error("inherited although the last writer went on as a reader, and has left")
	}
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

// Promise: who waits for a lock whose end was moved forward has it then, and not with the next heartbeat.
func TestWhoWaitsHearsOfAnEarlierEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), 3*time.Minute)
	_, b := session(t, s.URL(), 3*time.Minute)
	x := &demand{t: t}
	for _, hold := range []time.Duration{0, 10 * time.Minute} {
		r := exclusive(hold.String())
		r.Hold = hold
		held, waits := x.join(a, r), x.join(b, exclusive(r.Queue))
		noError(t, a.Keep(t.Context(), held, 100*time.Millisecond))
		if _, err := b.Await(x.soon(), waits); err != nil {
			t.Errorf("joined for %v: who waits has not got the lock %v after its end: %v", hold, soon, err)
		}
	}
}
