package zklock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a ticket keeps the token that it was told, and is shown with it, however
// often tokens are raised meanwhile.
func TestRaisesWhileATicketIsHeld(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	floor := uint64(1 << 40)
	more := func() {
		floor += 1000
		noError(t, d.Raise(limited(t), "q", floor))
	}
	more()
	h := holds(t, a, aMutex("q"))
	if h.Token <= floor {
		t.Fatalf("token %d after a raise to %d", h.Token, floor)
	}
	for range 8 {
		more()
		q, err := d.Follow(limited(t), "q", "")
		noError(t, err)
		if len(q.Members) != 1 || q.Members[0].Token != h.Token {
			t.Fatalf("shown as %+v, told as %+v", q.Members, h)
		}
	}
	noError(t, a.Leave(limited(t), h, true))
	for range 8 {
		more()
		next := holds(t, a, aMutex("q"))
		if next.Token <= floor {
			t.Fatalf("token %d after a raise to %d", next.Token, floor)
		}
		noError(t, a.Leave(limited(t), next, true))
	}
	if data, _, err := connected(t, s.Addr).Get("/a/_interlock/floors"); err != nil || len(data) > 100 {
		t.Errorf("what no ticket needs is kept: %q %v", data, err)
	}
}

// Promise: raises among tickets that are held, wait and come give each the token that it
// was told, and larger ones to those who come later.
func TestRaisesAmongTickets(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	floor := uint64(1 << 40)
	var told []driver.Ticket
	for i := range 6 {
		r := aMutex("q")
		r.Kind, r.Units, r.Capacity = driver.Semaphore, 1, 4
		got := join(t, a, r)
		if got.Held && got.Token <= floor && i > 0 {
			t.Fatalf("token %d after a raise to %d", got.Token, floor)
		}
		told = append(told, got)
		floor += 1000
		noError(t, d.Raise(limited(t), "q", floor))
	}
	for i := range told {
		q, err := d.Follow(limited(t), "q", "")
		noError(t, err)
		for j, m := range q.Members {
			if want := told[i+j]; want.Held && m.Token != want.Token {
				t.Fatalf("member %d is shown with %d, told %d", j, m.Token, want.Token)
			}
		}
		noError(t, a.Leave(limited(t), told[i], true))
		if next := i + 4; next < len(told) {
			if told[next], err = a.Await(limited(t), told[next]); err != nil || told[next].Token <= floor {
				t.Fatalf("after a raise to %d: %+v %v", floor, told[next], err)
			}
		}
	}
}

// Promise: a ticket with a fixed end has one token, whoever asks and however its node is
// named: the session that finds it again, and those who are shown it. Who waited behind it has
// a larger one.
func TestAFixedTicketHasOneToken(t *testing.T) {
	t.Parallel()
	for _, raised := range []bool{false, true} {
		t.Run(fmt.Sprintf("raised %v", raised), func(t *testing.T) {
			s := lent(t)
			d := opened(t, s.Addr)
			a, b := session(t, d, 20*time.Second), session(t, d, 20*time.Second)
			if raised {
				noError(t, d.Raise(limited(t), "q", 1<<40))
			}
			first := holds(t, a, aMutex("q"))
			r := aMutex("q")
			r.Hold = time.Hour
			second := join(t, a, r)
			third := join(t, b, aMutex("q")) // before the second gets its node with an end
			noError(t, a.Leave(limited(t), first, true))
			second, err := a.Await(limited(t), second)
			noError(t, err)
			shown := func(by string) {
				t.Helper()
				q, err := d.Follow(limited(t), "q", "")
				noError(t, err)
				if q.Members[0].Token != second.Token {
					t.Errorf("%s: shown with token %d, told %d", by, q.Members[0].Token, second.Token)
				}
			}
			shown("granted")
			if raised { // by somebody who has seen it wait
				_, err := connected(t, s.Addr).Set("/a/_interlock/floors", []byte(`{"q":[{"after":"0","add":"1099511628000"}]}`), -1)
				noError(t, err)
				shown("raised")
			}
			r.Retry = true
			again := holds(t, b, r)
			if again.Token != second.Token {
				t.Errorf("told %d by another session, %d at first", again.Token, second.Token)
			}
			shown("found again")
			noError(t, b.Leave(limited(t), again, true))
			third, err = b.Await(limited(t), third)
			noError(t, err)
			if third.Token <= again.Token {
				t.Errorf("token %d after %d", third.Token, again.Token)
			}
		})
	}
}

// Promise: a ticket that was given its end before its session has noticed the grant has the
// token of its first node, whoever finds it.
func TestATicketThatIsKeptBeforeItsGrantIsNoticedHasOneToken(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a, b := session(t, d, 20*time.Second), session(t, d, 20*time.Second)
	first := holds(t, a, aMutex("q"))
	r := aMutex("q")
	r.Hold = time.Hour
	second := join(t, a, r)
	third := join(t, b, aMutex("q"))
	noError(t, a.Leave(limited(t), first, true))
	noError(t, b.Keep(limited(t), second, time.Hour))
	r.Retry = true
	again := holds(t, b, r)
	own := holds(t, a, r)
	if again.Token != own.Token {
		t.Errorf("told %d by one session, %d by another", own.Token, again.Token)
	}
	noError(t, b.Leave(limited(t), again, true))
	third, err := b.Await(limited(t), third)
	noError(t, err)
	if third.Token <= again.Token {
		t.Errorf("token %d after %d", third.Token, again.Token)
	}
}

// Promise: a ticket that shrinks, while it waits or once it is held, keeps its token, and is
// shown with it, also where tokens were raised.
func TestATicketThatShrinksKeepsItsToken(t *testing.T) {
	t.Parallel()
	for _, raised := range []bool{false, true} {
		t.Run(fmt.Sprintf("raised %v", raised), func(t *testing.T) {
			s := lent(t)
			d := opened(t, s.Addr)
			a := session(t, d, 20*time.Second)
			if raised {
				noError(t, d.Raise(limited(t), "q", 1<<40))
			}
			r := aMutex("q")
			r.Kind, r.Units, r.Capacity = driver.Semaphore, 4, 4
			first := holds(t, a, r)
			r.ID, r.Units = someID(), 3
			second := join(t, a, r)
			r.ID = someID()
			third := join(t, a, r)
			noError(t, a.Shrink(limited(t), second, 2)) // while it waits
			shown := func(held driver.Ticket) {
				t.Helper()
				q, err := d.Follow(limited(t), "q", "")
				noError(t, err)
				if q.Members[0].ID != held.ID || q.Members[0].Token != held.Token {
					t.Errorf("shown %+v, told %+v", q.Members[0], held)
				}
			}
			noError(t, a.Leave(limited(t), first, true))
			second, err := a.Await(limited(t), second)
			noError(t, err)
			shown(second)
			noError(t, a.Shrink(limited(t), second, 1)) // while it is held
			shown(second)
			third, err = a.Await(limited(t), third)
			noError(t, err)
			if third.Token <= second.Token {
				t.Errorf("token %d after %d", third.Token, second.Token)
			}
			noError(t, a.Leave(limited(t), second, true))
			shown(third)
		})
	}
}

// Promise: of two raises at once none undoes the other.
func TestRaisesAtOnceDoNotUndoEachOther(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d, slow := opened(t, s.Addr), opened(t, via.Addr)
	noError(t, slow.Raise(limited(t), "p", 1<<40))
	hold := via.HoldRequests(func(f zktest.Frame) bool {
		return f.Op == zktest.OpMulti && f.Path == "/a/_interlock/floors"
	})
	raised := make(chan error, 1)
	go func() { raised <- slow.Raise(limited(t), "p", 1<<41) }()
	select {
	case <-hold.Held():
	case <-time.After(busy.Bound(time.Minute)):
		t.Fatal("Raise writes no floor")
	}
	noError(t, d.Raise(limited(t), "q", 1<<42))
	hold.Release()
	noError(t, <-raised)
	a := session(t, d, 20*time.Second)
	for q, floor := range map[string]uint64{"p": 1 << 41, "q": 1 << 42} {
		if k := holds(t, a, aMutex(q)); k.Token <= floor {
			t.Errorf("%s: token %d after a raise to %d", q, k.Token, floor)
		}
	}
}
