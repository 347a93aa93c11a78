package zklock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a fixed end is proven from before the server's clock was read, even if that
// answer is late, and no renewal proves more.
func TestAFixedEndIsProvenFromBeforeTheClockWasRead(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	a := session(t, opened(t, via.Addr), 10*time.Second)
	r := aMutex("q")
	r.Hold = time.Hour
	noError(t, a.Leave(limited(t), holds(t, a, r), true)) // all nodes are there
	r.ID = someID()
	hold := via.HoldReplies(zktest.With(zktest.OpSetData))
	joined := make(chan driver.Ticket, 1)
	go func() {
		got, err := a.Join(limited(t), r)
		if err != nil {
			t.Errorf("Join: %v", err)
		}
		joined <- got
	}()
	<-hold.Held()
	read := driver.Now()
	time.Sleep(10 * time.Millisecond)
	hold.Release()
	got := <-joined
	if !got.Held || got.Proof > read {
		t.Fatalf("held %v, proven %v after the clock was read", got.Held, got.Proof.Sub(read))
	}
	beat(t, a, got)
	busy.Until(t, "the session has a newer proof", func() bool {
		k := holds(t, a, aMutex("other"))
		noError(t, a.Leave(limited(t), k, true))
		return k.Proof > read
	})
	answers := errtest.Must(a.Renew(limited(t), []driver.Ticket{got}))(t)
	if len(answers) != 1 || answers[0].State != driver.Kept || answers[0].Proof > got.Proof {
		t.Errorf("a renewal says %+v of %+v", answers, got)
	}
}

// Promise: a fixed end stays what it is when another session finds the ticket again, also
// one that was moved up after an eviction; what is proven ends no later.
func TestAFixedEndStaysWhenItsTicketIsFoundAgain(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a, b := session(t, d, 20*time.Second), session(t, d, 20*time.Second)
	left := func() time.Duration {
		t.Helper()
		q := errtest.Must(d.Follow(limited(t), "q", ""))(t)
		if len(q.Members) != 1 || !q.Members[0].Fixed {
			t.Fatalf("members %+v", q.Members)
		}
		return q.Members[0].Left
	}
	r := aMutex("q")
	r.Hold = time.Hour
	k := holds(t, a, r)
	r.Retry = true
	for _, evicted := range []bool{false, true} {
		if evicted {
			noError(t, d.Ask(limited(t), "q", k.ID, driver.Evict))
			noError(t, a.Keep(limited(t), k, 20*time.Second))
			if got := left(); got > 20*time.Second {
				t.Fatalf("%v left of an evicted ticket", got)
			}
		}
		was := left()
		time.Sleep(50 * time.Millisecond) // what is counted anew ends later
		next := session(t, opened(t, s.Addr), 20*time.Second)
		got := holds(t, next, r)
		began := driver.Now()
		now := left()
		if now > was-50*time.Millisecond {
			t.Errorf("evicted %v: %v are left, after %v", evicted, now, was)
		}
		if ends := got.Proof.Add(r.Hold).Sub(began); ends > now+time.Second {
			t.Errorf("evicted %v: proven for another %v, which ends in %v", evicted, ends, now)
		}
	}
	noError(t, b.Leave(limited(t), k, true))
}

// Promise: a heartbeat does not keep a ticket that was to have an end, and has been removed since, though the answer is
// under way by which it has got the end: its node does not go with the session, so that its removal says nothing.
func TestAHeartbeatKeepsNoTicketThatMayHaveGotItsEndAndIsGone(t *testing.T) {
	t.Parallel()
	s := lent(t)
	a, r := session(t, opened(t, s.Addr), 20*time.Second), aMutex("q")
	r.Hold = time.Hour
	held := holds(t, a, r)
	zklock.Unfix(a, r.ID)
	raw := connected(t, s.Addr)
	for _, node := range nodes(t, raw, "/a/q") {
		noError(t, raw.Delete("/a/q/"+node, -1))
	}
	answer := errtest.Must(a.Renew(limited(t), []driver.Ticket{held}))(t)
	if len(answer) != 1 || answer[0].State != driver.Gone {
		t.Errorf("it is %+v", answer)
	}
}
