package zklock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a ticket with a fixed end has one token, whoever asks and however its node is
// named: the session that finds it again, and those who are shown it. Who waited behind it has
// a larger one.
func TestAFixedTicketHasOneToken(t *testing.T) {
	t.Parallel()
	for _, raised := range []bool{false, true} {
		t.Run(fmt.Sprintf("raised %v", raised), func(t *testing.T) {
			s := lent(t)
			d := opened(t, s.Addr)
			a, b := session(t, d, 20*time.Second), session(t, opened(t, s.Addr), 20*time.Second)
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
				q := errtest.Must(d.Follow(limited(t), "q", ""))(t)
				if q.Members[0].Token != second.Token {
					t.Errorf("%s: shown with token %d, told %d", by, q.Members[0].Token, second.Token)
				}
			}
			shown("granted")
			if raised { // by somebody who has seen it wait
				overwrite(t, connected(t, s.Addr), "/a/_interlock/floors/q", `{"floor":[{"after":0,"add":1099511628000}]}`)
				overwrite(t, connected(t, s.Addr), "/a/_interlock/floors", "")
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
	b := alone(t)
	a := b.next()
	first, r := b.holds(aMutex("q")), aMutex("q")
	r.Hold = time.Hour
	second, third := a.waits(r), b.waits(aMutex("q"))
	hold := a.via.HoldReplies(zktest.With(zktest.OpEvent))
	b.leaves(first)
	noError(t, b.Keep(limited(t), second, time.Hour))
	r.Retry = true
	again := b.holds(r)
	hold.Release()
	if own := a.holds(r); again.Token != own.Token {
		t.Errorf("told %d by one session, %d by another", own.Token, again.Token)
	}
	b.leaves(again)
	if third = b.granted(b.awaits(third)); third.Token <= again.Token {
		t.Errorf("token %d after %d", third.Token, again.Token)
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
		return f.Op == zktest.OpMulti && f.Path == "/a/_interlock/floors/p"
	})
	raised := make(chan error, 1)
	go func() { raised <- slow.Raise(limited(t), "p", 1<<41) }()
	select {
	case <-hold.Held():
	case <-time.After(busy.Bound(time.Minute)):
		t.Fatal("Raise writes no floor")
	}
	noError(t, d.Raise(limited(t), "p", 1<<42))
	hold.Release()
	noError(t, <-raised)
	if k := holds(t, session(t, d, 20*time.Second), aMutex("p")); k.Token <= 1<<42 {
		t.Errorf("token %d after a raise to %d", k.Token, 1<<42)
	}
}
