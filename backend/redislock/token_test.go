package redislock_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/redistest"
)

// tokens takes both forms of a lock, and makes sure that tokens only grow.
type growing struct {
	t    *testing.T
	last map[string]uint64
}

func (g *growing) with(when string, c *interlock.Client) {
	g.t.Helper()
	if g.last == nil {
		g.last = map[string]uint64{}
	}
	for name, l := range map[string]*interlock.Lock{
		"lone":    c.Mutex("lone", interlock.StrictOrder()),
		"robust":  c.Mutex("robust", interlock.StrictOrder(), interlock.ReportDeath()),
		"permits": c.Semaphore("permits", 3, interlock.Weight(3)),
		"raised":  c.Mutex("raised", interlock.StrictOrder()),
	} {
		lease := acquire(g.t, l)
		if lease.Token() <= g.last[name] {
			g.t.Fatalf("%s: the token of %q is %d after %d", when, name, lease.Token(), g.last[name])
		}
		g.last[name] = lease.Token()
		release(g.t, lease)
	}
}

// Promise: tokens grow over a restart with an empty data set.
func TestTokensGrowOverALossOfAllData(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := opener(t, s.URL())()
	g := &growing{t: t}
	for range 3 {
		g.with("after a restart", c)
		s.Kill()
		s.Restart() // it keeps nothing
	}
}

// Promise: tokens grow when the server's clock is set back, in each form of a lock
// and over deaths of holders, and locks work all the same.
func TestTokensGrowWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	open := opener(t, s.URL())
	c := open()
	g := &growing{t: t}
	g.with("before", c)
	noError(t, c.Admin().RaiseToken(t.Context(), "raised", 1<<62))
	for _, step := range []time.Duration{-30 * time.Minute, -time.Hour, 10 * time.Second, -24 * time.Hour} {
		s.StepClock(step)
		g.with("after a step of "+step.String(), c)
		g.with("again", open())
	}
}

// Promise: tokens grow when the server's clock is set back by less than an hour some
// time after the release, and a holder that did not leave cleanly is known of for weeks:
// what a lock leaves behind when it is given back lives as long as that.
func TestWhatAReleaseLeavesBehindLivesLong(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		later, back time.Duration
		inherited   bool // still known
	}{
		{10 * time.Second, 30 * time.Minute, true},
		{30 * time.Minute, 50 * time.Minute, true},
		{29 * 24 * time.Hour, 0, true},
		{31 * 24 * time.Hour, 0, false},
	} {
		t.Run(fmt.Sprintf("%v later and %v back", step.later, step.back), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.FakeTime(0))
			_, a := session(t, s.URL(), time.Minute)
			_, b := session(t, s.URL(), time.Minute)
			x := &demand{t: t}
			first := map[bool]map[bool]driver.Ticket{true: {}, false: {}}
			each := func(do func(busy, clean bool, r driver.Request)) {
				for busy := range first { // the queue takes its general form
					for _, clean := range []bool{true, false} {
						r := exclusive(fmt.Sprint("busy=", busy, ", clean=", clean))
						r.ReportDeath = true
						do(busy, clean, r)
					}
				}
			}
			each(func(busy, clean bool, r driver.Request) {
				held := x.join(a, r)
				if busy {
					x.leave(b, x.join(b, exclusive(r.Queue)), true)
				}
				x.leave(a, held, clean)
				first[busy][clean] = held
			})
			s.StepClock(step.later)
			each(func(_, _ bool, r driver.Request) { do(t, s, "EXISTS", "interlock:{"+r.Queue+"}:t") }) // the server removes it now, if its time is over
			s.StepClock(-step.back)
			each(func(busy, clean bool, r driver.Request) {
				second := x.join(b, r)
				if !second.Held || second.Token <= first[busy][clean].Token {
					t.Errorf("%s: %+v after the token %d", r.Queue, second, first[busy][clean].Token)
				}
				if want := !clean && step.inherited; second.Inherited != want {
					t.Errorf("%s: inherited: %v, want %v", r.Queue, second.Inherited, want)
				}
			})
		})
	}
}

// Promise: that a holder died is known for weeks, whatever form its queue had, and whether or not it asked for
// ReportDeath itself, also to a Join that is repeated since its answer was lost.
func TestADeathIsInheritedLongAfter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	p := redistest.NewProxy(t, s.Addr)
	_, a := session(t, s.URL(), time.Minute)
	_, b := session(t, "redis://"+p.Addr, time.Minute)
	x := &demand{t: t}
	for _, later := range []time.Duration{30 * time.Minute, 65 * time.Minute, 130 * time.Minute, 150 * time.Minute, 12 * time.Hour, 20 * 24 * time.Hour} {
		var all []driver.Request
		for _, robust := range []bool{true, false} {
			if !robust && later > time.Hour { // then it may be forgotten
				continue
			}
			for _, form := range []string{"lone", "general"} {
				r := exclusive(fmt.Sprint(form, robust, later))
				r.ReportDeath = robust
				dies := x.join(a, r)
				if !dies.Held {
					t.Fatalf("%+v", dies)
				}
				if form == "general" {
					x.leave(b, x.join(b, exclusive(r.Queue)), true)
				}
				r.ID, r.ReportDeath = newID(), true
				all = append(all, r)
			}
		}
		s.StepClock(later) // the holder never leaves
		for _, r := range all {
			p.LoseReplies(1, redistest.Command("EVALSHA"))
			if _, err := b.Join(t.Context(), r); err == nil {
				t.Fatal("the reply was not lost")
			}
			r.Retry = true
			if tk := x.join(b, r); !tk.Held || !tk.Inherited {
				t.Errorf("%s: %v after its holder has died: %+v", r.Queue, later, tk)
			}
		}
	}
}

// Promise: a lock that is held and renewed for longer than its token would be kept
// without that is remembered as long as any other, after its release and after a death.
func TestALockThatIsHeldForLongIsRemembered(t *testing.T) {
	t.Parallel()
	const ttl = time.Hour
	for _, robust := range []bool{false, true} {
		t.Run(fmt.Sprintf("robust=%v", robust), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.FakeTime(0))
			_, a := session(t, s.URL(), ttl)
			_, b := session(t, s.URL(), ttl)
			x := &demand{t: t}
			asks := func(queue string) driver.Request { r := exclusive(queue); r.ReportDeath = robust; return r }
			held := []driver.Ticket{x.join(a, asks("alone")), x.join(a, asks("queued"))}
			next := x.join(b, exclusive("queued"))
			for range 12 {
				s.StepClock(ttl / 2)
				renew(t, a, held...)
				renew(t, b, next)
			}
			x.leave(b, next, true)
			if robust { // and dies
				s.StepClock(20 * 24 * time.Hour)
			} else {
				x.leave(a, held[0], true)
				x.leave(a, held[1], true)
				s.StepClock(30 * time.Minute)
				do(t, s, "EXISTS", "interlock:{alone}:t")
				do(t, s, "EXISTS", "interlock:{queued}:t")
				s.StepClock(-8 * time.Hour) // to before the grant
			}
			for _, before := range held {
				again := x.join(b, asks(before.Queue))
				if !again.Held || again.Token <= before.Token || again.Inherited != robust {
					t.Errorf("%s: %+v after the token %d", before.Queue, again, before.Token)
				}
			}
		})
	}
}

// Promise: an attempt that had no answer, on a server whose clock was set back, does not
// have the last token forgotten sooner.
func TestAnAttemptThatHadNoAnswerForgetsNoToken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	p := redistest.NewProxy(t, s.Addr)
	_, a := session(t, "redis://"+p.Addr, time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	warm(t, a)
	x := &demand{t: t}
	first := x.join(a, exclusive("q"))
	x.leave(a, first, true)
	s.StepClock(-3 * time.Hour)
	p.LoseReplies(1, redistest.Command("EVALSHA"))
	if _, err := a.Join(t.Context(), exclusive("q")); err == nil {
		t.Fatal("the reply was not lost")
	}
	s.StepClock(2 * time.Hour)
	if second := x.join(b, exclusive("q")); !second.Held || second.Token <= first.Token {
		t.Errorf("%+v after the token %d", second, first.Token)
	}
}

// Promise: an offset that a raise has added to the clock stays, however long nobody uses the
// lock, also when the queue is lost; a raise that is lower takes nothing away.
func TestARaiseIsKeptForEver(t *testing.T) {
	t.Parallel()
	const second = 100_000 // in numbers of the clock
	s := redistest.Start(t, redistest.FakeTime(0))
	d, a := session(t, s.URL(), time.Hour)
	x := &demand{t: t}
	grant := func(queue string) uint64 {
		t.Helper()
		tk := awaited(t, a, x.join(a, exclusive(queue)))
		x.leave(a, tk, true)
		return tk.Token
	}
	forms := []string{"never used", "held alone", "in demand", "in demand, and lost"}
	last := map[string]uint64{}
	for _, form := range forms {
		var line []driver.Ticket
		if form != "never used" {
			line = append(line, x.join(a, exclusive(form)))
		}
		if strings.HasPrefix(form, "in demand") {
			line = append(line, x.join(a, exclusive(form)))
		}
		floor := uint64(time.Now().UnixMicro()/10 + 60*second)
		for _, to := range []uint64{floor - 30*second, floor, 5, floor - 30*second} {
			noError(t, d.Raise(t.Context(), form, to))
		}
		if form == "in demand, and lost" {
			do(t, s, "DEL", "interlock:{"+form+"}:q", form)
			line = nil
		}
		for _, tk := range line {
			x.leave(a, awaited(t, a, tk), true)
		}
		if last[form] = grant(form); last[form] <= floor {
			t.Errorf("%s: the token is %d after a raise to %d", form, last[form], floor)
		}
	}
	s.StepClock(100 * 24 * time.Hour)
	_, a = session(t, s.URL(), time.Hour)
	for _, form := range forms {
		do(t, s, "EXISTS", "interlock:{"+form+"}:t") // the server removes it now, if its time is over
		later := grant(form)
		if want := last[form] + 100*24*3600*second; later < want {
			t.Errorf("%s: the token is %d, want %d: that of the clock has come before the offset", form, later, want)
		}
		last[form] = later
	}
	s.StepClock(-200 * 24 * time.Hour)
	for _, form := range forms {
		if back := grant(form); back <= last[form] {
			t.Errorf("%s: the token is %d after %d, the clock was set back", form, back, last[form])
		}
	}
}

// Promise: outside a Cluster tokens grow when the server's clock goes forward twice, by more
// than the last token is kept, and is set back, and again after that; locks that were not used
// then go on from there too, and grow.
func TestTokensGrowThoughTheLastOneIsForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	p := redistest.NewProxy(t, s.Addr)
	c := opener(t, "redis://"+p.Addr+"?prefix=app/")()
	g := &growing{t: t}
	forget := func() { // the server removes what is over
		for _, k := range s.Keys() {
			do(t, s, "EXISTS", k)
		}
	}
	for i := range 3 {
		s.StepClock(3 * time.Hour)
		g.with("three hours ahead", c)
		s.StepClock(3 * time.Hour)
		forget()
		if i == 1 {
			g.with("six hours ahead", c)
			s.StepClock(5 * time.Hour)
			forget()
			s.StepClock(-5 * time.Hour)
		}
		s.StepClock(-6 * time.Hour)
		g.with("back", c)
		g.with("back, again", c)
		s.StepClock(12 * time.Hour)
		forget()
		s.StepClock(-12 * time.Hour)
		g.with("back, and forgotten once more", c)
	}
	if left := do(t, s, "PTTL", "interlock:{app/}:m").(int64); left < 29*24*3600*1000 || left > 32*24*3600*1000 {
		t.Errorf("the highest token is kept for %d ms", left)
	}
}

// Promise: the key of a prefix is above every token, in whatever way it was granted, for as
// long as the clock goes on.
func TestOneKeyIsAboveAllTokens(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	const ttl = 24 * time.Hour
	_, a := session(t, s.URL(), ttl)
	_, b := session(t, s.URL(), ttl)
	var last uint64
	below := func(way string, tk driver.Ticket) {
		t.Helper()
		high, err := strconv.ParseUint(fmt.Sprint(do(t, s, "GET", "interlock:{}:m")), 10, 64)
		if err != nil || !tk.Held || tk.Token <= last || tk.Token > high {
			t.Errorf("%s: the token %d after %d, and the key has %d, %v", way, tk.Token, last, high, err)
		}
		last = tk.Token
	}
	x := &demand{t: t}
	joined := func(s *driver.Opened) driver.Ticket { t.Helper(); return x.join(s, exclusive("q")) }
	leave := func(s *driver.Opened, tk driver.Ticket) { t.Helper(); x.leave(s, tk, true) }
	for range 3 {
		for range 2 {
			alone := joined(a)
			below("alone", alone)
			leave(a, alone)
			s.StepClock(2 * time.Minute)
		}
		held := joined(a)
		below("alone, before others", held)
		line := []driver.Ticket{joined(b), joined(b), joined(b)}
		for i, tk := range line {
			if s.StepClock(2 * time.Minute); i == 0 {
				renew(t, a, held) // other libraries are kept out for long: fast_leave.lua hands over
				leave(a, held)
			} else {
				renew(t, b, line[i-1])
				leave(b, line[i-1])
			}
			line[i] = awaited(t, b, tk)
			below("handed over", line[i])
		}
		s.StepClock(2 * time.Minute)
		leave(b, line[2])
	}
}

// Promise: no token is beyond the last one; and the offset of a raise does not carry tokens beyond it, however much
// time goes by: the last ones are counted.
func TestNoTokenIsBeyondTheLast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	d, a := session(t, s.URL(), 100*24*time.Hour)
	for queue, floor := range map[string]uint64{"near": driver.MaxToken - 8, "far": driver.MaxToken - 1<<21} {
		noError(t, d.Raise(t.Context(), queue, floor))
		last := floor
		for n := range 10 {
			tk, err := a.Join(t.Context(), exclusive(queue))
			if err != nil && queue == "near" && n > 0 {
				break
			}
			if err != nil || !tk.Held || tk.Token <= last || tk.Token >= driver.MaxToken {
				t.Fatalf("%s: %+v, %v after the token %d", queue, tk, err, last)
			}
			last = tk.Token
			noError(t, a.Leave(t.Context(), tk, true))
			if queue == "far" {
				s.StepClock(24 * time.Hour)
			}
		}
	}
}
