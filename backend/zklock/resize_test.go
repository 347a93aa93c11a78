package zklock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/zktest"
)

func permits(queue string, units, of int64) driver.Request {
	return driver.Request{ID: someID(), Queue: queue, Kind: driver.Semaphore, Units: units, Capacity: of}
}

// waits is a join that must not be served at once.
func waits(t *testing.T, s *driver.Opened, r driver.Request) driver.Ticket {
	t.Helper()
	got := join(t, s, r)
	if got.Held {
		t.Fatalf("held: %+v", got)
	}
	return got
}

// awaits has the ticket awaited, and tells what comes of that.
func awaits(t *testing.T, s *driver.Opened, k driver.Ticket) (granted chan error) {
	granted = make(chan error, 1)
	ctx := limited(t)
	go func() {
		got, err := s.Await(ctx, k)
		if err == nil && !got.Held {
			err = fmt.Errorf("not held: %+v", got)
		}
		granted <- err
	}()
	return granted
}

// stillWaits asks the server.
func stillWaits(t *testing.T, s *driver.Opened, r driver.Request) {
	t.Helper()
	r.Retry = true
	if got, err := s.Join(limited(t), r); err != nil || got.Held {
		t.Fatalf("it is to wait: %+v %v", got, err)
	}
}

// evicts asks for a ticket that is held, which is not removed.
func evicts(t *testing.T, d driver.Driver, s *driver.Opened, k driver.Ticket) {
	t.Helper()
	noError(t, d.Ask(limited(t), k.Queue, k.ID, driver.Evict))
	states, err := s.Renew(limited(t), []driver.Ticket{k})
	noError(t, err)
	for _, r := range states {
		if r.ID == k.ID && r.State != driver.Evicted {
			t.Errorf("a holder that is evicted is told that its ticket is %v", r.State)
		}
	}
	noError(t, s.Leave(limited(t), k, true)) // it stands
}

// beginResize begins to set a number, and holds back the transaction that does it. End sends
// that.
func beginResize(t *testing.T, addr, queue string, capacity int64) (end func() error) {
	t.Helper()
	via := zktest.NewProxy(t, addr)
	d := opened(t, via.Addr)
	hold := via.HoldRequests(zktest.Nth(2, zktest.OpMulti)) // the first one catches up
	ended := make(chan error, 1)
	go func() { ended <- d.Resize(limited(t), queue, capacity) }()
	<-hold.Held()
	return func() error { hold.Release(); return <-ended }
}

// Promise: who is granted while a smaller number is set, and whom the setting does not know, keeps
// what it has: others are granted what is left beside it, and to evict it is to ask for it.
func TestWhoComesWhileTheNumberIsSetStays(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a, b := session(t, d, 20*time.Second), session(t, d, 20*time.Second)
	holds(t, a, permits("q", 1, 5))
	end := beginResize(t, s.Addr, "q", 4)
	late := holds(t, b, permits("q", 4, 5))
	noError(t, end())
	r := permits("q", 1, 4)
	next := waits(t, a, r)
	noError(t, d.Resize(limited(t), "q", 3))
	stillWaits(t, a, r)
	evicts(t, d, b, late)
	noError(t, <-awaits(t, a, next))
}

// Promise: who is granted since another one leaves while a smaller number is set is known to hold. The other one
// may have held, or only waited.
func TestWhoIsGrantedWhileTheNumberIsSetIsKnown(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a, b := session(t, d, 20*time.Second), session(t, d, 20*time.Second)
	for i, q := range []string{"a holder leaves", "a waiter leaves"} {
		front := []driver.Ticket{holds(t, a, permits(q, 3, 5)), waits(t, a, permits(q, 3, 5))}
		next := waits(t, b, permits(q, 1, 5))
		end := beginResize(t, s.Addr, q, 2)
		noError(t, a.Leave(limited(t), front[i], true))
		noError(t, <-awaits(t, b, next))
		noError(t, end())
		found, err := d.Follow(limited(t), q, "")
		noError(t, err)
		if n := len(found.Members); n != 2 || !found.Members[0].Held || !found.Members[1].Held || found.Capacity != 2 {
			t.Errorf("%s: it is shown as %+v", q, found)
		}
		evicts(t, d, b, next)
	}
}

// Promise: a number is set though those in front come and go the whole time, and nobody whom they let in is taken
// for one who waits.
func TestANumberIsSetThoughHoldersComeAndGo(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d, op := opened(t, s.Addr), opened(t, via.Addr)
	a, b := session(t, d, 20*time.Second), session(t, d, 20*time.Second)
	front := holds(t, a, permits("q", 3, 3))
	next := waits(t, b, permits("q", 3, 3))
	hold := via.HoldRequests(zktest.Nth(2, zktest.OpMulti))
	ended := make(chan error, 1)
	go func() { ended <- op.Resize(limited(t), "q", 2) }()
	for tries := 0; ; tries++ {
		select {
		case <-hold.Held():
		case err := <-ended:
			noError(t, err)
			if tries > 20 {
				t.Errorf("it took %d transactions", tries)
			}
			evicts(t, d, a, front) // who was let in last
			if err := <-awaits(t, b, next); !errors.Is(err, driver.ErrGone) {
				t.Errorf("3 of 2 permits: %v", err)
			}
			if q, err := d.Follow(limited(t), "q", ""); err != nil || q.Capacity != 2 || len(q.Members) != 0 {
				t.Errorf("%+v %v", q, err)
			}
			return
		}
		later := waits(t, a, permits("q", 3, 3))
		noError(t, a.Leave(limited(t), front, true))
		noError(t, <-awaits(t, b, next))
		a, b, front, next = b, a, next, later
		again := via.HoldRequests(zktest.With(zktest.OpMulti))
		hold.Release()
		hold = again
		if tries > 20 {
			t.Fatal("it is never set")
		}
	}
}

// watching waits until a client has asked for so many watches of nodes below the path, or has had time to.
func watching(via *zktest.Proxy, path string) (wait func(n int32)) {
	var asked atomic.Int32
	via.Observe(func(f zktest.Frame) {
		if !f.Reply && (f.Op == zktest.OpGetData || f.Op == zktest.OpExists) && strings.HasPrefix(f.Path, path+"/") {
			asked.Add(1)
		}
	})
	return func(n int32) {
		for end := time.Now().Add(5 * time.Second); asked.Load() < n && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
}

// Promise: who waits hears of each number, and is not granted by one of before, even if it hears at once that
// the number is smaller and that one in front has left.
func TestWhoWaitsHearsOfEachNumber(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d := opened(t, s.Addr)
	a, b := session(t, d, 20*time.Second), session(t, opened(t, via.Addr), 20*time.Second)
	for i := range 12 {
		q := fmt.Sprintf("q%d", i)
		if i%2 == 1 {
			noError(t, d.Resize(limited(t), q, 5))
		}
		one, other := holds(t, a, permits(q, 3, 5)), holds(t, a, permits(q, 2, 5))
		noError(t, d.Raise(limited(t), "other", uint64(i+1)<<40)) // it is read by who waits, after what is held back below
		r := permits(q, 2, 5)
		w := waits(t, b, r)
		wait := watching(via, "/a/"+q)
		hold := via.HoldReplies(zktest.With(zktest.OpGetData, zktest.OpExists)) // so that all comes at once
		granted := awaits(t, b, w)
		<-hold.Held()
		wait(4) // its node, both holders and the number
		noError(t, d.Resize(limited(t), q, 4))
		noError(t, a.Leave(limited(t), other, true))
		hold.Release()
		wait(5) // the number again; what is added to tokens was read before, so that it has heard of both
		stillWaits(t, b, r)
		select {
		case err := <-granted:
			t.Fatalf("granted 2 of 4 beside 3: %v", err)
		default:
		}
		noError(t, d.Resize(limited(t), q, 5))
		select {
		case err := <-granted:
			noError(t, err)
		case <-time.After(10 * time.Second):
			t.Fatal("2 of 5 are not granted beside 3")
		}
		noError(t, errors.Join(a.Leave(limited(t), one, true), b.Leave(limited(t), w, true)))
	}
}

// Promise: who holds as many permits as there are by now, beside another one, lets nobody in by leaving whom that one
// keeps out.
func TestWhoHoldsBesideAnotherLeavesNoMark(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d := opened(t, s.Addr)
	a, b, c := session(t, d, 20*time.Second), session(t, d, 20*time.Second), session(t, opened(t, via.Addr), 20*time.Second)
	one, r := holds(t, a, permits("q", 1, 3)), permits("q", 2, 3)
	two := holds(t, b, r)
	noError(t, d.Resize(limited(t), "q", 2))
	r.Retry = true
	holds(t, b, r) // it has seen the number
	all := permits("q", 2, 2)
	last := waits(t, c, all)
	wait := watching(via, "/a/q")
	granted := awaits(t, c, last)
	wait(3)                                     // its node, who holds two, and the number
	noError(t, d.Raise(limited(t), "other", 0)) // they are answered
	noError(t, b.Leave(limited(t), two, true))
	for range 5 {
		stillWaits(t, c, all)
	}
	select {
	case err := <-granted:
		t.Fatalf("granted 2 of 2 beside one: %v", err)
	default:
	}
	noError(t, a.Leave(limited(t), one, true))
	noError(t, <-granted)
}

// Promise: who is granted permits beside another is told that the last one who had them all died, though that
// other one had as many as there were in between.
func TestTheDeathOfWhoHadAllIsNotForgottenForASmallerNumber(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a, b := session(t, d, 20*time.Second), session(t, d, 20*time.Second)
	robust := func(units int64) driver.Request {
		r := permits("q", units, 3)
		r.Robust = true
		return r
	}
	all := holds(t, a, robust(3))
	two, other, r := waits(t, b, robust(2)), waits(t, b, robust(1)), robust(1)
	last := waits(t, b, r)
	noError(t, a.Leave(limited(t), all, false))
	noError(t, d.Resize(limited(t), "q", 2))
	noError(t, <-awaits(t, b, two))
	stillWaits(t, b, r) // it has seen who holds two of two
	noError(t, b.Leave(limited(t), other, true))
	stillWaits(t, b, r)
	noError(t, d.Resize(limited(t), "q", 3))
	got, err := b.Await(limited(t), last)
	if err != nil || !got.Held || !got.Inherited {
		t.Errorf("beside one of two: %+v %v", got, err)
	}
}

// Promise: a waiter that asks for more than the number leaves also if whoever has set it does not remove it: nobody waits
// behind it, and its Join says why.
func TestWhoNeverFitsLeavesByItself(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	viaHeavy := zktest.NewProxy(t, s.Addr)
	d, op := opened(t, s.Addr), opened(t, via.Addr)
	a, b := session(t, d, 20*time.Second), session(t, opened(t, viaHeavy.Addr), 20*time.Second)
	held, r := holds(t, a, permits("q", 2, 5)), permits("q", 4, 5)
	heavy, light := waits(t, b, r), waits(t, a, permits("q", 1, 5))
	left, granted := awaits(t, b, heavy), awaits(t, a, light)
	news := viaHeavy.HoldReplies(zktest.With(zktest.OpEvent))
	via.LoseRequest(zktest.Nth(3, zktest.OpMulti))
	if err := op.Resize(limited(t), "q", 3); err == nil {
		t.Fatal("its last transaction was not lost")
	}
	news.Release()
	if err := <-left; !errors.Is(err, driver.ErrGone) {
		t.Errorf("4 of 3 permits: %v", err)
	}
	noError(t, <-granted)
	r.Retry = true
	if got, err := b.Join(limited(t), r); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("4 of 3 permits, again: %+v %v", got, err)
	}
	noError(t, op.Resize(limited(t), "q", 3)) // again
	noError(t, errors.Join(a.Leave(limited(t), held, true), a.Leave(limited(t), light, true)))
}

// Promise: whoever sets a number that it has set already, since the answer was lost, changes nothing; of several who set numbers at once
// one is the last; and nothing is left when it is taken back.
func TestOneNumberIsSet(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	via := zktest.NewProxy(t, s.Addr)
	d, op := opened(t, s.Addr), opened(t, via.Addr)
	settings := func() []string {
		return slices.DeleteFunc(nodes(t, raw, "/a/q"), func(n string) bool { return strings.Contains(n, "permits") && n != "_c_permits" })
	}
	via.LoseReplyTo(zktest.Nth(2, zktest.OpMulti))
	if err := op.Resize(limited(t), "q", 3); err == nil {
		t.Fatal("no answer was lost")
	}
	before := settings()
	noError(t, op.Resize(limited(t), "q", 3))
	if after := settings(); len(after) != 2 || fmt.Sprint(slices.Sorted(slices.Values(before))) != fmt.Sprint(slices.Sorted(slices.Values(after))) {
		t.Errorf("%q after %q", after, before)
	}
	noError(t, d.Resize(limited(t), "q", 0))
	for round := range 5 {
		var setting sync.WaitGroup
		for i := range 4 {
			setting.Go(func() {
				if err := opened(t, s.Addr).Resize(limited(t), "q", int64(2+i)); err != nil {
					t.Error(err)
				}
			})
		}
		setting.Wait()
		if all := settings(); len(all) != 2 {
			t.Errorf("round %d: %q", round, all)
		}
	}

	a := session(t, d, 20*time.Second)
	q, err := d.Follow(limited(t), "q", "")
	noError(t, err)
	held := holds(t, a, permits("q", 1, q.Capacity))
	noError(t, d.Resize(limited(t), "q", 0))
	noError(t, a.Leave(limited(t), held, true))
	noError(t, a.Leave(limited(t), holds(t, a, permits("q", 7, 7)), true))
	for end := time.Now().Add(10 * time.Second); len(nodes(t, raw, "/a/q")) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("left of a number that was taken back: %q", nodes(t, raw, "/a/q"))
		}
	}
}

// Promise: a lock of another kind that comes while a number is set is kept, and the number is not.
func TestAnotherKindThatComesWhileTheNumberIsSet(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	warm(t, a, "q")
	end := beginResize(t, s.Addr, "q", 2)
	mutex := holds(t, a, aMutex("q"))
	if err := end(); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("beside a mutex: %v", err)
	}
	if found, err := d.Follow(limited(t), "q", ""); err != nil || found.Resized || len(found.Members) != 1 {
		t.Errorf("beside the mutex: %+v %v", found, err)
	}
	noError(t, a.Leave(limited(t), mutex, true))
	holds(t, a, permits("q", 5, 5))
}

// Promise: a ticket that is to be refused for its number is not removed any more once a number is set with which it is
// granted.
func TestWhoIsAcceptedByANumberIsNotExpelled(t *testing.T) {
	t.Parallel()
	s := lent(t)
	viaWrong, viaRight := zktest.NewProxy(t, s.Addr), zktest.NewProxy(t, s.Addr)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	wrong, right := session(t, opened(t, viaWrong.Addr), 20*time.Second), session(t, opened(t, viaRight.Addr), 20*time.Second)
	holds(t, a, permits("q", 1, 5))
	looks := viaWrong.HoldReplies(zktest.With(zktest.OpCreate))
	granted := make(chan driver.Ticket, 1)
	go func() {
		got, err := wrong.Join(limited(t), permits("q", 1, 6))
		if err != nil || !got.Held {
			t.Errorf("1 of 6 permits, after 6 were set: %+v %v", got, err)
		}
		granted <- got
	}()
	<-looks.Held()
	expels := viaRight.HoldRequests(zktest.With(zktest.OpMulti))
	joined := make(chan error, 1)
	go func() {
		_, err := right.Join(limited(t), permits("q", 1, 5))
		joined <- err
	}()
	<-expels.Held()
	noError(t, d.Resize(limited(t), "q", 6))
	looks.Release()
	got := <-granted
	expels.Release()
	noError(t, <-joined)
	noError(t, wrong.Leave(limited(t), got, true)) // it stands
}

// Promise: a waiter that is evicted when a larger number lets it in is asked, as a holder is.
func TestWhoIsEvictedWhenANumberLetsItInIsAsked(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	for _, q := range []string{"the first number", "another number"} {
		if q == "another number" {
			noError(t, d.Resize(limited(t), q, 5))
		}
		holds(t, a, permits(q, 4, 5))
		w := waits(t, a, permits(q, 2, 5))
		via := zktest.NewProxy(t, s.Addr)
		op := opened(t, via.Addr)
		hold := via.HoldRequests(zktest.With(zktest.OpMulti))
		asked := make(chan error, 1)
		go func() { asked <- op.Ask(limited(t), q, w.ID, driver.Evict) }()
		<-hold.Held()
		noError(t, d.Resize(limited(t), q, 6))
		noError(t, <-awaits(t, a, w))
		hold.Release()
		noError(t, <-asked)
		noError(t, a.Leave(limited(t), w, true)) // it stands
	}
}

// Promise: where the number that was set cannot be read nobody is granted, and told what to do; other names
// are not concerned.
func TestGarbageInANumberGrantsNobody(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	warm(t, a, "q")
	for _, node := range []string{
		"_c_set", "_c_set-latch-0000000001", "_c_set0-latch-0000000001", "_c_set-2-latch-0000000001", "_c_set08-latch-0000000001", "_c_unsetx-latch-0000000001",
		"_c_set8_held-latch-0000000001", "_c_set8_unsure99999999999-latch-0000000001", "_c_set8_held1_held2-latch-0000000001", "_c_set9007199254740992-latch-0000000001",
		"_c_set8_other-latch-0000000001", "_c_set8__READ__0000000001", "_c_set8-lock-0000000001",
		"_c_set8_held1-latch-0000000001", "_c_set8_held0_unsure7-latch-0000000001",
	} {
		held := holds(t, a, permits("q", 1, 2))
		_, err := raw.Create("/a/q/"+node, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		noError(t, err)
		says := func(err error, what string) {
			t.Helper()
			if !driver.IsPermanent(err) || !strings.Contains(err.Error(), node) || !strings.Contains(err.Error(), "interlock permits") {
				t.Errorf("%s beside %q: %v", what, node, err)
			}
		}
		for _, r := range []driver.Request{permits("q", 1, 2), permits("q", 1, 8), aMutex("q")} {
			for _, r.NoWait = range []bool{true, false} {
				r.ID = someID()
				_, err := a.Join(limited(t), r)
				says(err, fmt.Sprintf("Join of %+v", r))
			}
		}
		says(d.Resize(limited(t), "q", 0), "no number")
		noError(t, a.Leave(limited(t), holds(t, a, permits("other", 1, 2)), true))
		noError(t, a.Leave(limited(t), held, true))
		noError(t, d.Resize(limited(t), "q", 3))
		noError(t, a.Leave(limited(t), holds(t, a, permits("q", 3, 3)), true))
		noError(t, d.Resize(limited(t), "q", 0))
		if left := nodes(t, raw, "/a/q"); len(left) != 0 {
			t.Fatalf("left: %q", left)
		}
	}
}
