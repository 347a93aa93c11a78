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
		"robust":  c.Mutex("robust", interlock.StrictOrder(), interlock.Robust()),
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
	if err := c.RaiseToken(t.Context(), "raised", 1<<62); err != nil {
		t.Fatal(err)
	}
	for _, step := range []time.Duration{-30 * time.Minute, -time.Hour, 10 * time.Second, -24 * time.Hour} {
		s.StepClock(step)
		g.with("after a step of "+step.String(), c)
		g.with("again", open())
	}
}

// Promise: tokens grow over a failover to a replica that misses the last writes.
func TestTokensGrowOverAFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	url := "redis://" + strings.Join(s.SentinelAddrs(), ",") + "?master=" + s.Name
	c := opener(t, url, interlock.TTL(5*time.Second))()
	g := &growing{t: t}
	g.with("before", c)

	old := s.Master()
	replica := s.Replica()
	const key = "interlock:{lone}:t"
	for n, behind := 0, false; n < 20 || !behind; n++ {
		if n == 200 {
			t.Fatal("the replica misses nothing")
		}
		// It misses what follows, until the sentinels make it a replica again.
		if _, err := replica.Do("REPLICAOF", "NO", "ONE"); err != nil {
			t.Log(err)
		}
		g.with("while the replica falls behind", c)
		has, err := replica.Do("GET", key)
		behind = err == nil && has != do(t, old, "GET", key)
	}
	old.Kill()
	s.WaitFailover(old)
	g.with("after the failover", c)
}

// Promise: tokens grow when the server's clock is set back by less than an hour some
// time after the release, and a holder that did not leave cleanly is known of for weeks:
// what a lock leaves behind when it is given back lives as long as that.
func TestWhatAReleaseLeavesBehindLivesLong(t *testing.T) {
	t.Parallel()
	robust := func() driver.Request { r := exclusive("q"); r.Robust = true; return r }
	for _, form := range []struct {
		name string
		busy bool // the queue takes its general form
	}{{"lone", false}, {"general", true}} {
		for _, clean := range []bool{true, false} {
			for _, step := range []struct {
				later, back time.Duration
				inherited   bool // still known
			}{
				{10 * time.Second, 30 * time.Minute, true},
				{30 * time.Minute, 50 * time.Minute, true},
				{24 * time.Hour, 0, true},
				{29 * 24 * time.Hour, 0, true},
				{31 * 24 * time.Hour, 0, false},
			} {
				t.Run(fmt.Sprintf("%s/clean=%v/%v later and %v back", form.name, clean, step.later, step.back), func(t *testing.T) {
					t.Parallel()
					s := redistest.Start(t, redistest.FakeTime(0))
					_, a := session(t, s.URL(), time.Minute)
					_, b := session(t, s.URL(), time.Minute)
					first, err := a.Join(t.Context(), robust())
					if err != nil || !first.Held {
						t.Fatal(first, err)
					}
					if form.busy {
						next, err := b.Join(t.Context(), robust())
						if err != nil {
							t.Fatal(err)
						}
						if err := b.Leave(t.Context(), next, true); err != nil {
							t.Fatal(err)
						}
					}
					if err := a.Leave(t.Context(), first, clean); err != nil {
						t.Fatal(err)
					}
					s.StepClock(step.later)
					do(t, s, "EXISTS", "interlock:{q}:t") // the server removes it now, if its time is over
					s.StepClock(-step.back)
					second, err := b.Join(t.Context(), robust())
					if err != nil || !second.Held {
						t.Fatal(second, err)
					}
					if second.Token <= first.Token {
						t.Errorf("the token is %d after %d", second.Token, first.Token)
					}
					if want := !clean && step.inherited; second.Inherited != want {
						t.Errorf("inherited: %v, want %v", second.Inherited, want)
					}
				})
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
		for _, queued := range []bool{false, true} {
			t.Run(fmt.Sprintf("robust=%v/queued=%v", robust, queued), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t, redistest.FakeTime(0))
				_, a := session(t, s.URL(), ttl)
				_, b := session(t, s.URL(), ttl)
				r := exclusive("q")
				r.Robust = robust
				held, err := a.Join(t.Context(), r)
				if err != nil || !held.Held {
					t.Fatal(held, err)
				}
				var line []driver.Ticket
				if queued {
					next, err := b.Join(t.Context(), exclusive("q"))
					if err != nil || next.Held {
						t.Fatal(next, err)
					}
					line = append(line, next)
				}
				for range 12 {
					s.StepClock(ttl / 2)
					renew(t, a, held)
					renew(t, b, line...)
				}
				for _, next := range line {
					if err := b.Leave(t.Context(), next, true); err != nil {
						t.Fatal(err)
					}
				}
				if robust { // and dies
					s.StepClock(20 * 24 * time.Hour)
				} else {
					if err := a.Leave(t.Context(), held, true); err != nil {
						t.Fatal(err)
					}
					s.StepClock(30 * time.Minute)
					do(t, s, "EXISTS", "interlock:{q}:t")
					s.StepClock(-8 * time.Hour) // to before the grant
				}
				r = exclusive("q")
				r.Robust = robust
				again, err := b.Join(t.Context(), r)
				if err != nil || !again.Held {
					t.Fatal(again, err)
				}
				if again.Token <= held.Token {
					t.Errorf("the token is %d after %d", again.Token, held.Token)
				}
				if again.Inherited != robust {
					t.Errorf("inherited: %v", again.Inherited)
				}
			})
		}
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
	first, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Leave(t.Context(), first, true); err != nil {
		t.Fatal(err)
	}
	s.StepClock(-3 * time.Hour)
	p.LoseReplies(1, "EVALSHA")
	if _, err := a.Join(t.Context(), exclusive("q")); err == nil {
		t.Fatal("the reply was not lost")
	}
	s.StepClock(2 * time.Hour)
	second, err := b.Join(t.Context(), exclusive("q"))
	if err != nil || !second.Held {
		t.Fatal(second, err)
	}
	if second.Token <= first.Token {
		t.Errorf("the token is %d after %d", second.Token, first.Token)
	}
}

// Promise: an offset that a raise has added to the clock stays, however long nobody uses the
// lock, also when the queue is lost; a raise that is lower takes nothing away.
func TestARaiseIsKeptForEver(t *testing.T) {
	t.Parallel()
	const second = 100_000 // in numbers of the clock
	for _, form := range []string{"never used", "held alone", "in demand", "in demand, and lost"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.FakeTime(0))
			d, a := session(t, s.URL(), time.Hour)
			_, b := session(t, s.URL(), time.Hour)
			grant := func(s *driver.Opened) uint64 {
				t.Helper()
				tk, err := s.Join(t.Context(), exclusive("q"))
				if err != nil || !tk.Held {
					t.Fatal(tk, err)
				}
				if err := s.Leave(t.Context(), tk, true); err != nil {
					t.Fatal(err)
				}
				return tk.Token
			}
			var line []driver.Ticket
			if form != "never used" {
				tk, err := a.Join(t.Context(), exclusive("q"))
				if err != nil {
					t.Fatal(err)
				}
				line = append(line, tk)
			}
			if strings.HasPrefix(form, "in demand") {
				tk, err := a.Join(t.Context(), exclusive("q"))
				if err != nil {
					t.Fatal(err)
				}
				line = append(line, tk)
			}
			floor := uint64(time.Now().UnixMicro()/10 + 60*second)
			for _, to := range []uint64{floor - 30*second, floor, 5, floor - 30*second} {
				if err := d.Raise(t.Context(), "q", to); err != nil {
					t.Fatal(err)
				}
			}
			if form == "in demand, and lost" {
				do(t, s, "DEL", "interlock:{q}:q", "q")
				line = nil
			}
			for _, tk := range line {
				if err := a.Leave(t.Context(), awaited(t, a, tk), true); err != nil {
					t.Fatal(err)
				}
			}
			first := grant(a)
			if first <= floor {
				t.Errorf("the token is %d after a raise to %d", first, floor)
			}
			s.StepClock(100 * 24 * time.Hour)
			do(t, s, "EXISTS", "interlock:{q}:t") // the server removes it now, if its time is over
			later := grant(b)
			if want := first + 100*24*3600*second; later < want {
				t.Errorf("the token is %d, want %d: that of the clock has come before the offset", later, want)
			}
			s.StepClock(-200 * 24 * time.Hour)
			if back := grant(a); back <= later {
				t.Errorf("the token is %d after %d, the clock was set back", back, later)
			}
		})
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
	joined := func(s *driver.Opened) driver.Ticket {
		t.Helper()
		tk, err := s.Join(t.Context(), exclusive("q"))
		if err != nil {
			t.Fatal(err)
		}
		return tk
	}
	leave := func(s *driver.Opened, tk driver.Ticket) {
		t.Helper()
		if err := s.Leave(t.Context(), tk, true); err != nil {
			t.Fatal(err)
		}
	}
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
				renew(t, a, held) // other libraries are kept out for long: pass.lua hands over
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
