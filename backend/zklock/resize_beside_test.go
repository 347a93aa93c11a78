package zklock_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// fresh is a client of its own, which knows nothing of a queue yet.
func fresh(t *testing.T, addr string) (driver.Driver, *driver.Opened) {
	t.Helper()
	d := opened(t, addr)
	return d, session(t, d, 20*time.Second)
}

// Promise: where a number is set, who has held all permits and left lets in no lock of another kind, whose client does not know
// of the number; and nobody of an earlier release, to which the mark says nothing.
func TestAMarkLeftBesideANumberLetsNobodyPassIt(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d, a := fresh(t, s.Addr)
	for _, q := range []string{"left", "ended"} {
		noError(t, d.Resize(limited(t), q, 1))
		r := permits(q, 1, 1)
		if q == "ended" {
			r.Hold = time.Hour
		}
		k := holds(t, a, r)
		if q == "ended" { // another session dismisses it
			_, other := fresh(t, s.Addr)
			noError(t, other.Leave(limited(t), k, true))
		} else {
			noError(t, a.Leave(limited(t), k, true))
		}
		data, _, err := connected(t, s.Addr).Get("/a/" + q)
		noError(t, err)
		if !strings.HasPrefix(string(data), "P") {
			t.Errorf("%s: earlier releases read R and the number as: come in; it is %q", q, data)
		}
		_, b := fresh(t, s.Addr)
		if got, err := b.Join(limited(t), aMutex(q)); !errors.Is(err, driver.ErrMismatch) {
			t.Errorf("%s: a mutex where a number is set: %+v %v", q, got, err)
		}
		_, c := fresh(t, s.Addr)
		holds(t, c, permits(q, 1, 1))
	}
}

// notExpelled has somebody join who says another number, 5, than the one that was taken back, 8; and while its answer is held
// back, somebody who says 8, and is about to change the queue because of that. Then the number is forgotten, and the first one
// granted.
func notExpelled(t *testing.T, takenBack func(addr string) (forget func())) {
	t.Helper()
	s := lent(t)
	viaWrong, viaRight := zktest.NewProxy(t, s.Addr), zktest.NewProxy(t, s.Addr)
	_, wrong := fresh(t, viaWrong.Addr)
	_, right := fresh(t, viaRight.Addr)
	warm(t, wrong, "other") // so that a grant needs no request after the list
	warm(t, wrong, "q")
	forget := takenBack(s.Addr)
	looks := viaWrong.HoldReplies(zktest.With(zktest.OpCreate))
	granted := joins(t, wrong, permits("q", 1, 5))
	<-looks.Held()
	changes := viaRight.HoldRequests(zktest.With(zktest.OpMulti))
	joined := joins(t, right, permits("q", 1, 8))
	<-changes.Held()
	forget()
	looks.Release()
	got := <-granted
	if got.err != nil || !got.Held {
		t.Errorf("1 of 5 permits, once 8 are forgotten: %+v", got)
	}
	changes.Release()
	if got := <-joined; !errors.Is(got.err, driver.ErrMismatch) {
		t.Errorf("1 of 8 permits beside 1 of 5: %v", got.err)
	}
	noError(t, wrong.Leave(limited(t), got.Ticket, true)) // it stands
}

// answer is what a Join says.
type answer struct {
	driver.Ticket
	err error
}

// joins begins a Join.
func joins(t *testing.T, s *driver.Opened, r driver.Request) <-chan answer {
	joined := make(chan answer, 1)
	ctx := limited(t)
	go func() {
		got, err := s.Join(ctx, r)
		joined <- answer{got, err}
	}()
	return joined
}

// Promise: who is granted once a number that was taken back is forgotten is not expelled because of it.
func TestWhoIsGrantedOnceANumberIsForgottenIsNotExpelled(t *testing.T) {
	t.Parallel()
	notExpelled(t, func(addr string) func() {
		d, a := fresh(t, addr)
		noError(t, d.Resize(limited(t), "q", 8))
		before := holds(t, a, permits("q", 2, 8))
		noError(t, d.Resize(limited(t), "q", 0))
		return func() { noError(t, a.Leave(limited(t), before, true)) }
	})
}

// Promise: who is granted since a number that was taken back is forgotten, while another one is set, keeps what it has.
func TestWhoIsGrantedOnceANumberIsForgottenStays(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d, a := fresh(t, s.Addr)
	_, b := fresh(t, via.Addr)
	warm(t, b, "other") // so that a grant needs no request after the list
	for _, units := range []int64{20, 5} {
		q := map[int64]string{20: "more than there is", 5: "what there is"}[units]
		noError(t, d.Resize(limited(t), q, 8))
		before := holds(t, a, permits(q, 1, 8))
		noError(t, d.Resize(limited(t), q, 0))
		end := beginResize(t, s.Addr, q, 10)
		noError(t, a.Leave(limited(t), before, false))
		late := holds(t, b, permits(q, units, 20))
		noError(t, end())
		evicts(t, d, b, late)
	}
}

// endedBefore puts a number there that was taken back, 8, and in front of it a ticket whose fixed end has passed: the number
// counts until somebody lists the line, and removes the ticket.
func endedBefore(t *testing.T, addr, queue string) {
	t.Helper()
	raw, all := connected(t, addr), zk.WorldACL(zk.PermAll)
	for _, node := range []string{"_c_6f2c1f0e-7a0b-4a5c-9d3e-0123456789ab-until1-permits2of8-lock-", "_c_unset8_unsure-1-latch-"} {
		_, err := raw.Create("/a/"+queue+"/"+node, nil, zk.FlagSequence, all)
		noError(t, err)
	}
	_, err := raw.Create("/a/"+queue+"/_c_permits", nil, zk.FlagPersistent, all)
	noError(t, err)
}

// Promise: who is granted because the last ticket of a number that was taken back is removed, since its end has passed, is not
// expelled because of that number.
func TestWhoIsGrantedOnceAnEndHasPassedIsNotExpelled(t *testing.T) {
	t.Parallel()
	notExpelled(t, func(addr string) func() {
		endedBefore(t, addr, "q")
		return func() {} // whoever joins removes it
	})
}

// Promise: nor is it removed by whoever sets another number meanwhile.
func TestWhoIsGrantedOnceAnEndHasPassedStays(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via, viaSetter := zktest.NewProxy(t, s.Addr), zktest.NewProxy(t, s.Addr)
	_, m := fresh(t, via.Addr)
	warm(t, m, "other") // so that a grant needs no request after the list
	warm(t, m, "q")
	endedBefore(t, s.Addr, "q")
	looks := via.HoldReplies(zktest.With(zktest.OpCreate))
	granted := joins(t, m, aMutex("q"))
	<-looks.Held()
	setter := opened(t, viaSetter.Addr)
	sets := viaSetter.HoldRequests(zktest.Nth(2, zktest.OpMulti)) // the first one catches up
	ended := make(chan error, 1)
	go func() { ended <- setter.Resize(limited(t), "q", 5) }()
	select {
	case err := <-ended:
		ended <- err
	case <-sets.Held(): // it must not remove the mutex
	}
	looks.Release()
	got := <-granted
	if got.err != nil || !got.Held {
		t.Errorf("a mutex, once the number is forgotten: %+v", got)
	}
	sets.Release()
	if err := <-ended; !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("a number beside a mutex: %v", err)
	}
	noError(t, m.Leave(limited(t), got.Ticket, true)) // it stands
}

// Promise: a number can be taken back while a lock of Curator stands behind it, and does not count because of that lock.
func TestANumberIsTakenBackBesideALockOfCurator(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d, a := fresh(t, s.Addr)
	raw := connected(t, s.Addr)
	noError(t, d.Resize(limited(t), "q", 8))
	before := holds(t, a, permits("q", 1, 8))
	lock, err := raw.Create("/a/q/_c_6f2c1f0e-7a0b-4a5c-9d3e-0123456789ab-lock-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	noError(t, err)
	if err := d.Resize(limited(t), "q", 5); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("another number beside a lock of Curator: %v", err)
	}
	noError(t, d.Resize(limited(t), "q", 0))
	if got, err := a.Join(limited(t), permits("q", 1, 7)); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("permits beside a lock of Curator: %+v %v", got, err)
	}
	noError(t, a.Leave(limited(t), before, true))
	mutex := waits(t, a, aMutex("q"))
	noError(t, raw.Delete(lock, -1))
	noError(t, <-awaits(t, a, mutex))
	noError(t, a.Leave(limited(t), mutex, true))
	holds(t, a, permits("q", 7, 7))
}

// Promise: what a number says of who holds is not said of those who come after its queue's node was made anew, however
// far the numbers of these are.
func TestAQueueThatIsMadeAnewWhileTheNumberIsSet(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d, a := fresh(t, s.Addr)
	raw := connected(t, s.Addr)
	use := func(q string, times int) {
		for range times {
			noError(t, a.Leave(limited(t), holds(t, a, permits(q, 1, 1)), true))
		}
	}
	for q, again := range map[string]int{"fewer numbers": 0, "as many numbers": 9} {
		use(q, 10)
		before := holds(t, a, permits(q, 1, 1))
		end := beginResize(t, s.Addr, q, 1)
		noError(t, a.Leave(limited(t), before, true))
		noError(t, raw.Delete("/a/"+q, -1)) // as the server does once it is empty
		use(q, again)
		_, b := fresh(t, s.Addr)
		_, c := fresh(t, s.Addr)
		held := holds(t, b, permits(q, 1, 1))
		r := permits(q, 1, 1)
		waits(t, c, r)
		noError(t, end())
		stillWaits(t, c, r)
		noError(t, b.Leave(limited(t), held, true))
	}

	// Where nobody was.
	use("empty", 10)
	end := beginResize(t, s.Addr, "empty", 1)
	noError(t, raw.Delete("/a/empty", -1))
	late := holds(t, a, permits("empty", 2, 2))
	noError(t, end())
	evicts(t, d, a, late)
}

// Promise: a number that is set stays although a lock of another kind is about to be refused because of it
// while another number is set: that one is refused.
func TestANumberStaysBesideALockThatIsToBeRefused(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d, a := fresh(t, s.Addr)
	_, m := fresh(t, via.Addr)
	for _, q := range []string{"kept", "taken back"} {
		noError(t, a.Leave(limited(t), holds(t, a, permits(q, 1, 8)), true))
		noError(t, d.Resize(limited(t), q, 8))
		if q == "taken back" {
			holds(t, a, permits(q, 1, 8))
			noError(t, d.Resize(limited(t), q, 0))
		}
		looks := via.HoldReplies(zktest.With(zktest.OpCreate))
		joined := make(chan error, 1)
		go func() {
			_, err := m.Join(limited(t), aMutex(q))
			joined <- err
		}()
		<-looks.Held()
		noError(t, d.Resize(limited(t), q, 5))
		looks.Release()
		if err := <-joined; !errors.Is(err, driver.ErrMismatch) {
			t.Errorf("%s: a mutex beside a number: %v", q, err)
		}
		found, err := d.Follow(limited(t), q, "")
		noError(t, err)
		if !found.Resized || found.Capacity != 5 {
			t.Errorf("%s: another number is shown as %+v", q, found)
		}
	}
}

// Promise: a number is not forgotten because a lock of another kind comes while another one is set.
func TestANumberStaysThoughAnotherKindComesWhileAnotherIsSet(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d, a := fresh(t, s.Addr)
	_, m := fresh(t, via.Addr)
	warm(t, a, "q")
	noError(t, d.Resize(limited(t), "q", 8))
	end := beginResize(t, s.Addr, "q", 5)
	looks := via.HoldReplies(zktest.With(zktest.OpCreate))
	joined := make(chan driver.Ticket, 1)
	go func() {
		got, err := m.Join(limited(t), aMutex("q"))
		if err != nil {
			t.Error(err)
		}
		joined <- got
	}()
	<-looks.Held()
	if err := end(); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("beside a mutex: %v", err)
	}
	looks.Release()
	if got := <-joined; got.Held {
		noError(t, m.Leave(limited(t), got, true))
	}
	if got, err := a.Join(limited(t), permits("q", 1, 7)); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("1 of 7 permits where a number was set: %+v %v", got, err)
	}
}

// Promise: a ticket with a fixed end, which outlives its session, is held for whoever joins it again, though it was granted while
// a number was set that is too small for it.
func TestAFixedEndOutlivesASmallerNumber(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d, a := fresh(t, s.Addr)
	_, b := fresh(t, s.Addr)
	holds(t, a, permits("q", 1, 5))
	end := beginResize(t, s.Addr, "q", 3)
	r := permits("q", 4, 5)
	r.Hold = time.Hour
	late := holds(t, b, r)
	noError(t, end())
	noError(t, b.Close(limited(t)))
	_, c := fresh(t, s.Addr)
	r.Retry = true
	if got := holds(t, c, r); got.Token != late.Token {
		t.Errorf("the token %d, after %d", got.Token, late.Token)
	}
	found, err := d.Follow(limited(t), "q", "")
	noError(t, err)
	if n := len(found.Members); n != 2 || !found.Members[1].Held {
		t.Errorf("it is shown as %+v", found)
	}
}

// Promise: the node that tells of the first number stays if it stands alone, since somebody has removed the number's node by
// hand: the next number may need it.
func TestABellThatStandsAloneStays(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d, a := fresh(t, s.Addr)
	raw := connected(t, s.Addr)
	noError(t, d.Resize(limited(t), "q", 3))
	for _, node := range nodes(t, raw, "/a/q") {
		if node != "_c_permits" {
			noError(t, raw.Delete("/a/q/"+node, -1))
		}
	}
	for range 5 {
		held := holds(t, a, permits("q", 7, 7))
		noError(t, errors.Join(d.Resize(limited(t), "q", 0), a.Leave(limited(t), held, true)))
	}
	noError(t, d.Close()) // waits for what is done in the background
	if left := nodes(t, raw, "/a/q"); !slices.Equal(left, []string{"_c_permits"}) {
		t.Errorf("left: %q", left)
	}
	d, a = fresh(t, s.Addr)
	noError(t, d.Resize(limited(t), "q", 3))
	noError(t, a.Leave(limited(t), holds(t, a, permits("q", 3, 3)), true))
	noError(t, d.Resize(limited(t), "q", 0))
	if left := nodes(t, raw, "/a/q"); len(left) != 0 {
		t.Errorf("left of a number that was taken back: %q", left)
	}
}

// Promise: a heartbeat renews all leases of a session though one of its tickets waits where the number of permits cannot be
// read.
func TestGarbageInANumberConcernsNoOtherLease(t *testing.T) {
	t.Parallel()
	s := lent(t)
	_, a := fresh(t, s.Addr)
	_, b := fresh(t, s.Addr)
	holds(t, a, permits("q", 1, 1))
	r := permits("q", 1, 1)
	r.Hold = time.Hour
	waits(t, b, r)
	other := holds(t, b, aMutex("other"))
	_, err := connected(t, s.Addr).Create("/a/q/_c_set", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	noError(t, err)
	states, err := b.Renew(limited(t), []driver.Ticket{other})
	noError(t, err)
	if !slices.ContainsFunc(states, func(r driver.Renewed) bool { return r.ID == other.ID && r.State == driver.Kept }) {
		t.Errorf("%+v", states)
	}
}

// Promise: a number that is set is nobody who has died; who has died before that is not forgotten.
func TestANumberIsNobodyWhoHasDied(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d, a := fresh(t, s.Addr)
	for _, q := range []string{"none came", "one left", "one died"} {
		robust := permits(q, 1, 1)
		robust.Robust = true
		if q != "none came" {
			noError(t, a.Leave(limited(t), holds(t, a, robust), true))
		}
		if q == "one died" {
			robust.ID = someID()
			noError(t, a.Leave(limited(t), holds(t, a, robust), false))
		}
		noError(t, d.Resize(limited(t), q, 1))
		for i := range 3 {
			robust.ID = someID()
			k := holds(t, a, robust)
			if died := q == "one died" && i == 0; k.Inherited != died {
				t.Errorf("%s: after the number: Inherited %v", q, k.Inherited)
			}
			noError(t, a.Leave(limited(t), k, i < 2))
		}
		robust.ID = someID()
		if k := holds(t, a, robust); !k.Inherited {
			t.Errorf("%s: a death after the number is forgotten", q)
		}
	}
}

// Promise: semaphores in Curator's layout keep their number, and say why; a number that was set for the other layout, or one that
// cannot be read, refuses what has Curator's.
func TestANumberRefusesOtherLayouts(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d, err := openURL(t.Context(), "zk://"+s.Addr+"/a"+curators)
	noError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	if err := d.Resize(limited(t), "q", 3); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "semaphore=curator") {
		t.Errorf("a number in Curator's layout: %v", err)
	}
	a := session(t, d, 20*time.Second)
	raw := connected(t, s.Addr)
	noError(t, opened(t, s.Addr).Resize(limited(t), "set", 3))
	warm(t, a, "garbage")
	_, err = raw.Create("/a/garbage/_c_set", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	noError(t, err)
	for _, q := range []string{"set", "garbage"} {
		member := driver.Request{ID: someID(), Queue: q, Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity}
		for _, r := range []driver.Request{permits(q, 1, 3), member} {
			if got, err := a.Join(limited(t), r); !errors.Is(err, driver.ErrMismatch) {
				t.Errorf("%s: a %s in Curator's layout: %+v %v", q, r.Kind, got, err)
			}
		}
	}
}

// Promise: who is removed before it looks whether it is held is not told so, though whoever stands there then is alone, too.
func TestWhoIsRemovedBeforeItLooksIsNotGranted(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d, a := fresh(t, s.Addr)
	_, b := fresh(t, via.Addr)
	warm(t, b, "other") // so that a grant needs no request after the look
	for range 200 {     // it looks while its node is made: it may look too early
		warm(t, a, "q")
		looks := via.HoldRequests(zktest.With(zktest.OpGetData))
		r := aMutex("q")
		joined := joins(t, b, r)
		<-looks.Held()
		removed := d.Ask(limited(t), "q", r.ID, driver.Force) == nil
		var next driver.Ticket
		if removed {
			next = holds(t, a, aMutex("q"))
		}
		looks.Release()
		got := <-joined
		if removed {
			if got.err == nil && got.Held {
				t.Errorf("it was removed, and is told that it holds: %+v", got.Ticket)
			}
			noError(t, a.Leave(limited(t), next, true))
			return
		}
		noError(t, got.err)
		noError(t, b.Leave(limited(t), got.Ticket, true))
	}
	t.Error("it always looks before its node is made")
}

// Promise: a waiter that is removed before it looks whether it is held is not told so, though the one in front of it has
// held, and left, by then.
func TestAWaiterThatIsRemovedBeforeItLooksIsNotGranted(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d, a := fresh(t, s.Addr)
	_, b := fresh(t, via.Addr)
	raw := connected(t, s.Addr)
	warm(t, b, "other") // so that a grant needs no request after the look
	for what, r := range map[string]driver.Request{"evicted": aMutex("mutex"), "too large by now": permits("permits", 5, 5)} {
		seen := false
		for i := range 200 { // it looks while its node is made: it may look too early
			r.Queue = fmt.Sprint(r.Kind, i) // of which it knows nothing
			first, next := r, r
			r.ID, first.ID, next.ID = someID(), someID(), someID()
			held := holds(t, a, first)
			looks := via.HoldRequests(zktest.With(zktest.OpGetData))
			joined := joins(t, b, r)
			select {
			case <-looks.Held():
			case got := <-joined:
				t.Fatalf("it has not looked: %+v", got)
			}
			if seen = len(nodes(t, raw, "/a/"+r.Queue)) == 2; !seen {
				looks.Release()
				got := <-joined
				if got.Held {
					t.Fatalf("%s: it is told that it holds beside the holder: %+v", what, got.Ticket)
				}
				noError(t, errors.Join(got.err, b.Leave(limited(t), got.Ticket, true), a.Leave(limited(t), held, true)))
				continue
			}
			if what == "evicted" {
				noError(t, d.Ask(limited(t), r.Queue, r.ID, driver.Evict))
			} else {
				noError(t, d.Resize(limited(t), r.Queue, 3))
				next.Units, next.Capacity = 3, 3
			}
			noError(t, a.Leave(limited(t), held, true))
			last := holds(t, a, next)
			looks.Release()
			if got := <-joined; got.err == nil && got.Held {
				t.Errorf("%s: it was removed, and is told that it holds: %+v", what, got.Ticket)
			}
			noError(t, a.Leave(limited(t), last, true))
			break
		}
		if !seen {
			t.Errorf("%s: it always looks before its node is made", what)
		}
	}
}

// Promise: a ticket that is removed while its client removes one in front of it, whose end has passed, is not granted.
func TestWhoIsRemovedWhileItRemovesWhatHasEndedIsNotGranted(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	for what, r := range map[string]driver.Request{"by a number": aMutex("set"), "by another one": permits("line", 1, 5)} {
		for span, late := time.Second, true; late; span *= 2 {
			via := zktest.NewProxy(t, s.Addr)
			d, other := fresh(t, s.Addr)
			_, b := fresh(t, via.Addr)
			r.ID, r.Queue = someID(), what+span.String()
			warm(t, b, "other") // so that a grant needs no request after the list
			warm(t, other, r.Queue)
			ends := permits(r.Queue, 2, 8)
			ends.Hold = span
			holds(t, other, ends)
			end := func() (ms int64) {
				for _, n := range nodes(t, raw, "/a/"+r.Queue) {
					if _, n, ok := strings.Cut(n, "-until"); ok {
						n, _, _ = strings.Cut(n, "-")
						ms, _ = strconv.ParseInt(n, 10, 64)
					}
				}
				return ms
			}
			until(t, "it has an end", func() bool { return end() != 0 })
			ms := end()
			looks := via.HoldRequests(zktest.With(zktest.OpSetData)) // it reads the clock
			joined := joins(t, b, r)
			select {
			case <-looks.Held():
			case got := <-joined: // the span was over before
				_ = quit(t, b, got.Ticket)
				continue
			}
			next := permits(r.Queue, 8, 8)
			if what == "by a number" {
				next = permits(r.Queue, 3, 3)
				noError(t, d.Resize(limited(t), r.Queue, 3))
			} else {
				waits(t, other, next)
				next.Retry = true
			}
			late = end() == 0
			until(t, "the end has passed", func() bool {
				stat, err := raw.Set("/a/other", nil, -1)
				noError(t, err)
				return stat.Mtime > ms
			})
			looks.Release()
			got := <-joined
			last := join(t, other, next)
			if got.err == nil && got.Held && last.Held {
				t.Errorf("%s: two hold: %+v beside %+v", what, got.Ticket, last)
			}
		}
	}
}

// Promise: who takes its number back at once, since others were there when it was set, leaves the number that another one has set.
func TestANumberOfAnotherIsNotTakenBack(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d, m := fresh(t, s.Addr)
	warm(t, m, "q")
	setter := opened(t, via.Addr)
	sets := via.HoldRequests(zktest.Nth(2, zktest.OpMulti)) // the first one catches up
	ended := make(chan error, 1)
	go func() { ended <- setter.Resize(limited(t), "q", 5) }()
	<-sets.Held()
	mutex := holds(t, m, aMutex("q"))
	takesBack := via.HoldRequests(zktest.With(zktest.OpMulti))
	sets.Release()
	<-takesBack.Held()
	noError(t, m.Leave(limited(t), mutex, true))
	noError(t, d.Resize(limited(t), "q", 6))
	takesBack.Release()
	if err := <-ended; !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("a number beside a mutex: %v", err)
	}
	if found, err := d.Follow(limited(t), "q", ""); err != nil || !found.Resized || found.Capacity != 6 {
		t.Errorf("the number of another: %+v %v", found, err)
	}
}

// Promise: who is granted by a number that is taken back at once, since others were there when it was set, is not expelled.
func TestWhoHoldsByANumberThatIsTakenBackAtOnceStays(t *testing.T) {
	t.Parallel()
	s := lent(t)
	viaSetter, via := zktest.NewProxy(t, s.Addr), zktest.NewProxy(t, s.Addr)
	_, m := fresh(t, s.Addr)
	_, late := fresh(t, via.Addr)
	_, other := fresh(t, s.Addr)
	_, wrong := fresh(t, s.Addr)
	warm(t, late, "other") // so that a grant needs no request after the list
	warm(t, m, "q")
	setter := opened(t, viaSetter.Addr)
	sets := viaSetter.HoldRequests(zktest.Nth(2, zktest.OpMulti)) // the first one catches up
	ended := make(chan error, 1)
	go func() { ended <- setter.Resize(limited(t), "q", 5) }()
	<-sets.Held()
	mutex := holds(t, m, aMutex("q"))
	looks := via.HoldReplies(zktest.With(zktest.OpCreate))
	joined := make(chan driver.Ticket, 1)
	go func() { joined <- join(t, late, permits("q", 1, 8)) }()
	<-looks.Held()
	takesBack := viaSetter.HoldRequests(zktest.With(zktest.OpMulti))
	sets.Release()
	<-takesBack.Held()
	noError(t, m.Leave(limited(t), mutex, true))
	looks.Release()
	first := <-joined
	if !first.Held {
		t.Fatalf("1 of 5 that were set: %+v", first)
	}
	second := holds(t, other, permits("q", 4, 5))
	takesBack.Release()
	if err := <-ended; !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("a number beside a mutex: %v", err)
	}
	if got, err := wrong.Join(limited(t), permits("q", 1, 8)); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("1 of 8 permits beside those who hold all 5: %+v %v", got, err)
	}
	noError(t, errors.Join(late.Leave(limited(t), first, true), other.Leave(limited(t), second, true))) // they stand
}

// Promise: the node of a semaphore whose number was set stays, also when the number is taken back: who has died in between is
// not forgotten.
func TestTheNodeOfASemaphoreWithANumberStays(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Containers(100*time.Millisecond))
	d, a := fresh(t, s.Addr)
	raw := connected(t, s.Addr)
	noError(t, errors.Join(d.Resize(limited(t), "q", 3), d.Resize(limited(t), "q", 0)))
	warm(t, a, "other")
	until(t, "the server has removed the node of another lock", func() bool {
		exists, _, err := raw.Exists("/a/other")
		noError(t, err)
		return !exists
	})
	if exists, _, err := raw.Exists("/a/q"); err != nil || !exists {
		t.Errorf("the node is gone: %v", err)
	}
}
