package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
	"github.com/interlock-go/interlock/internal/errtest"
)

// permits is a queue of permits, without listeners and heartbeats: only what a test does happens.
type permits struct {
	*testing.T
	s        *store
	o        exchange.Session
	requests int
}

func newPermits(t *testing.T) *permits {
	t.Parallel()
	s := storeTo(t, lent(t))
	return &permits{T: t, s: s, o: begun(t, s)}
}

// request is a Join of permits. Each has the next one of the session's seats: a seat that is taken by a ticket of which
// the store does not know costs a transaction more.
func (p *permits) request(units, capacity int64) exchange.Join {
	p.requests++
	id := fmt.Sprintf("%x", p.requests%16) + exchange.NewID()[1:]
	return exchange.Join{Session: p.o, Request: driver.Request{ID: id, Queue: "q", Kind: driver.Semaphore, Units: units, Capacity: capacity}}
}

// late is a Join that arrives when its caller has an error already.
func (p *permits) late(units, capacity int64) exchange.Join {
	p.Helper()
	j, kv := p.request(units, capacity), p.s.kv
	late := &lateTxn{KV: kv, late: 1}
	p.s.kv = late
	if _, err := p.s.Join(p.Context(), j); !errors.Is(err, errLate) {
		p.Fatal(err)
	}
	p.s.kv = kv
	errtest.Must(late.arrive())(p)
	return j
}

// join joins, and returns what is known of the ticket.
func (p *permits) join(units, capacity int64, want exchange.State) *exchange.Ref {
	p.Helper()
	j := p.request(units, capacity)
	j.ReportDeath = true
	st, err := p.s.Join(p.Context(), j)
	if err != nil || st.State != want {
		p.Fatalf("%d of %d permits: %+v, %v", units, capacity, st, err)
	}
	return &exchange.Ref{Queue: "q", ID: j.ID, Tag: st.Tag}
}

// is looks at tickets.
func (p *permits) is(want exchange.State, refs ...*exchange.Ref) {
	p.Helper()
	for i, ref := range refs {
		if got := stateOf(p.T, p.s, p.o, ref); got != want {
			p.Fatalf("ticket %d of these is %v, not %v", i, got, want)
		}
	}
}

// beat is a heartbeat for tickets.
func (p *permits) beat(want exchange.State, refs ...*exchange.Ref) {
	p.Helper()
	var all []exchange.Ref
	for _, ref := range refs {
		all = append(all, *ref)
	}
	r, err := p.s.Renew(p.Context(), p.o, all, len(all))
	if err != nil {
		p.Fatalf("the heartbeat fails: %v", err)
	}
	for i, ref := range refs {
		st := r.Tickets[i]
		if st.State != want {
			p.Fatalf("ticket %d of these is %v, not %v", i, st.State, want)
		}
		if ref.Tag = st.Tag; want == exchange.NotAsked {
			ref.Tag = all[i].Tag
		}
	}
}

// other is a lock of the same client.
func (p *permits) other() *exchange.Ref {
	p.Helper()
	j := mutex(p.o)
	j.Queue = "other"
	st, err := p.s.Join(p.Context(), j)
	if err != nil || st.State != exchange.Held {
		p.Fatalf("%+v, %v", st, err)
	}
	return &exchange.Ref{Queue: "other", ID: j.ID, Tag: st.Tag}
}

// keeps puts a value into the key of a floor.
func (p *permits) keeps(queue, value string) {
	p.Helper()
	errtest.Must(p.s.client.Put(p.Context(), p.s.floor(queue), value))(p)
}

// force has a ticket removed, as if its client had died.
func (p *permits) force(ref *exchange.Ref) {
	p.Helper()
	errtest.Must(p.s.Ask(p.Context(), "q", ref.ID, driver.Force))(p)
}

// inherits has a holder looked at as after a reply that was lost.
func (p *permits) inherits(want bool, ref *exchange.Ref) {
	p.Helper()
	ref.Tag = 0
	all, err := p.s.Look(p.Context(), p.o, []exchange.Ref{*ref})
	if err != nil || all[0].State != exchange.Held || all[0].Inherited != want {
		p.Fatalf("inherited is to be %v: %+v, %v", want, all, err)
	}
	ref.Tag = all[0].Tag
}

// shows is what inspection shows, as far as somebody holds.
func (p *permits) shows(capacity int64, held ...bool) {
	p.Helper()
	q, err := p.s.Read(p.Context(), "q", exchange.Follower{})
	ok := err == nil && q.Capacity == capacity && len(q.Members) == len(held)
	for i := 0; ok && i < len(held); i++ {
		ok = q.Members[i].Held == held[i]
	}
	if !ok {
		p.Fatalf("of %d permits these are to be held: %v; it shows %+v, %v", capacity, held, q, err)
	}
}

func (p *permits) leave(refs ...*exchange.Ref) {
	p.Helper()
	for _, ref := range refs {
		errtest.Must(p.s.Leave(p.Context(), exchange.Leave{Session: p.o, Ref: *ref, Clean: true}))(p)
	}
}

func (p *permits) resize(n int64) {
	p.Helper()
	if _, err := p.s.Resize(p.Context(), "q", n); err != nil {
		p.Fatalf("%d permits: %v", n, err)
	}
}

// dies is a Resize whose client dies as soon as the number is set.
func (p *permits) dies(n int64) {
	p.Helper()
	kv := p.s.kv
	ctx, die := context.WithCancel(p.Context())
	defer die()
	p.s.kv = &beforeTxn{KV: kv, n: 3, do: die} // read, set
	if _, err := p.s.Resize(ctx, "q", n); err == nil {
		p.Fatal("it does not die")
	}
	p.s.kv = kv
}

// before has something done before a transaction of this client.
func (p *permits) before(n int, do func()) {
	kv := p.s.kv
	p.s.kv = &beforeTxn{KV: kv, n: n, do: func() { p.s.kv = kv; do() }}
}

func (p *permits) evict(ref *exchange.Ref) {
	p.Helper()
	errtest.Must(p.s.Ask(p.Context(), "q", ref.ID, driver.Evict))(p)
}

// Promise: if whoever sets a number of permits dies in the middle, nobody loses a permit by that, also who has not
// heard of its grant; no more are granted than there are; and who waits for more than there are leaves.
func TestWhoSetsPermitsMayDieInTheMiddle(t *testing.T) {
	p := newPermits(t)
	first := p.join(3, 5, exchange.Held)
	second, third, heavy := p.join(3, 5, exchange.Waiting), p.join(1, 5, exchange.Waiting), p.join(3, 5, exchange.Waiting)
	p.leave(first)
	p.dies(2)
	last := p.join(1, 2, exchange.Waiting)
	p.evict(third) // a holder is asked
	p.shows(2, true, true, false, false)
	p.is(exchange.Held, second, third)
	p.is(exchange.Gone, heavy)
	p.leave(second)
	p.is(exchange.Held, last)
}

// Promise: the same if it is not known who was held, since the queue changed again and again, or nothing says it.
func TestWhoWasHeldNeedNotBeKnown(t *testing.T) {
	for what, set := range map[string]func(p *permits, last *exchange.Ref) *exchange.Ref{
		"it changes": func(p *permits, last *exchange.Ref) *exchange.Ref {
			kv := p.s.kv
			var change func()
			change = func() {
				p.leave(last)
				last = p.join(3, 5, exchange.Waiting)
				p.before(2, change)
			}
			p.before(2, change) // it has read
			p.resize(2)
			p.s.kv = kv
			return last
		},
		"nothing says it": func(p *permits, last *exchange.Ref) *exchange.Ref {
			p.keeps("q", `{"number":{"permits":2}}`)
			return last
		},
	} {
		t.Run(what, func(t *testing.T) {
			p := newPermits(t)
			one := p.join(1, 5, exchange.Held)
			first := p.join(4, 5, exchange.Held)
			second, third, fourth := p.join(3, 5, exchange.Waiting), p.join(1, 5, exchange.Waiting), p.join(3, 5, exchange.Waiting)
			p.leave(first)
			p.is(exchange.Held, second)
			fourth = set(p, fourth)
			last := p.join(1, 2, exchange.Waiting)
			p.is(exchange.Held, one, second) // as their client knows
			p.is(exchange.Waiting, third, fourth)
			p.evict(third) // as a holder, since it may be one
			p.shows(2, true, false, false, false, false)
			errtest.Is(t, p.s.Keep(p.Context(), p.o, *second, time.Minute), nil, "a holder gets no fixed end")
			second.Tag = 0 // as after that
			p.is(exchange.Held, second)
			errtest.Is(t, p.s.Keep(p.Context(), p.o, *fourth, time.Minute), exchange.ErrNotHeld, "a waiter gets a fixed end")
			p.resize(2)
			p.is(exchange.Waiting, fourth, last)
			p.leave(second, third, fourth)
			p.is(exchange.Held, last)
		})
	}
}

// Promise: number and line are of one revision, also where a line is read page by page: else who reads while the number
// is lowered and a holder leaves would count by the old number without that holder.
func TestALineIsReadByTheNumberOfItsTime(t *testing.T) {
	p := newPermits(t)
	var holders []*exchange.Ref
	for range perFront + 2 {
		holders = append(holders, p.join(1, perFront+2, exchange.Held))
	}
	last := p.join(1, perFront+2, exchange.Waiting)
	last.Tag = 0
	p.before(3, func() { // the session, the front, the rest
		p.resize(1)
		p.leave(holders[perFront])
	})
	p.is(exchange.Waiting, last)
}

// Promise: the same if what keeps a waiter out was asked for before the line.
func TestAWaiterIsJudgedByTheNumberOfItsTime(t *testing.T) {
	p := newPermits(t)
	p.resize(4)
	first, next, last := p.join(4, 4, exchange.Held), p.join(1, 4, exchange.Waiting), p.join(1, 4, exchange.Waiting)
	p.before(2, func() {
		p.resize(1)
		p.leave(first)
	})
	p.is(exchange.Waiting, last)
	p.is(exchange.Held, next)
}

// Promise: the same of a newcomer in a long line.
func TestANewcomerIsJudgedByTheNumberOfItsTime(t *testing.T) {
	p := newPermits(t)
	var first *exchange.Ref
	for range perJoin + 1 {
		first = p.join(1, perJoin+1, exchange.Held)
	}
	p.before(2, func() {
		p.resize(2)
		p.leave(first)
	})
	p.join(1, perJoin+1, exchange.Waiting)
}

// Promise: the first waiter hears of each holder that leaves, also of those that hold beyond the number; and one of
// these that is far behind is found by other sessions if it has a fixed end.
func TestWhatHoldsBeyondTheNumber(t *testing.T) {
	p := newPermits(t)
	var holders []*exchange.Ref
	for range perFront + 2 {
		holders = append(holders, p.join(1, perFront+2, exchange.Held))
	}
	far := holders[perFront+1]
	noError(t, p.s.Keep(t.Context(), p.o, *far, time.Minute))
	p.resize(2)
	last := p.join(1, 2, exchange.Waiting)
	for range 2 {
		if w := p.s.watches.all[ofTicket(last.ID)]; w.key != p.s.queue("q") || w.end == "" {
			t.Errorf("it watches %s to %q", w.key, w.end)
		}
		p.is(exchange.Waiting, last) // a look, which reads the front first
	}
	other := begun(t, p.s)
	errtest.Is(t, p.s.Keep(t.Context(), other, exchange.Ref{Queue: "q", ID: far.ID}, time.Hour), nil, "another session")
	p.leave(holders[:perFront]...)
	p.is(exchange.Waiting, last)
	p.leave(holders[perFront])
	p.is(exchange.Held, last)
}

// Promise: what holds stays so where keys of a thousand queues below stand in front, waiters leave, and the number is
// forgotten when the queue is empty.
func TestPermitsAreSetBehindKeysOfQueuesBelow(t *testing.T) {
	p := newPermits(t)
	below(t, p.s, p.o)
	first, second, heavy := p.join(2, 4, exchange.Held), p.join(2, 4, exchange.Held), p.join(3, 4, exchange.Waiting)
	p.resize(2)
	last := p.join(1, 2, exchange.Waiting)
	p.shows(2, true, true, false)
	p.is(exchange.Gone, heavy)
	p.leave(first)
	p.is(exchange.Waiting, last)
	p.resize(0)
	if _, err := p.s.Join(t.Context(), p.request(1, 4)); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("another number: %v", err)
	}
	p.leave(second)
	p.is(exchange.Held, last)
	p.leave(last)
	p.join(4, 4, exchange.Held)
}

// Promise: of two that set a number at the same time one is the last, and what the other one would have removed stays.
func TestTwoSetPermitsAtOnce(t *testing.T) {
	p := newPermits(t)
	first, second := p.join(4, 5, exchange.Held), p.join(3, 5, exchange.Waiting)
	p.before(2, func() { p.resize(6) }) // it has read
	p.resize(5)
	p.shows(5, true, false)
	p.before(3, func() { p.resize(7) }) // it has set the number
	p.resize(2)
	p.shows(7, true, true)
	third := p.join(3, 7, exchange.Waiting)
	p.before(3, func() { p.resize(10) }) // it goes to remove the third one
	p.resize(2)
	p.shows(10, true, true, true)
	p.is(exchange.Held, first, second, third)
}

// Promise: a waiter that a larger number grants just as it is evicted is evicted as a holder.
func TestAWaiterThatIsEvictedAsMorePermitsAreSetIsEvictedAsAHolder(t *testing.T) {
	p := newPermits(t)
	p.join(2, 2, exchange.Held)
	next := p.join(1, 2, exchange.Waiting)
	p.before(2, func() { p.resize(3) })
	p.evict(next)
	p.is(exchange.Held, next)
}

// Promise: a waiter that does not fit a larger number either is evicted as a waiter.
func TestAWaiterThatDoesNotFitALargerNumberIsEvicted(t *testing.T) {
	p := newPermits(t)
	p.join(4, 5, exchange.Held)
	next := p.join(3, 5, exchange.Waiting)
	p.resize(5)
	p.resize(6)
	p.evict(next)
	p.is(exchange.Gone, next)
}

// Promise: who disagrees with the first one about the number is not removed once a number is set by which it holds.
func TestWhoComesToHoldBySetPermitsIsNotRemoved(t *testing.T) {
	p := newPermits(t)
	p.join(1, 5, exchange.Held)
	odd := p.late(1, 7)
	p.before(2, func() {
		p.resize(7)
		odd.Retry = true
		joins(t.Context(), t, p.s, odd, exchange.Held)
	})
	p.join(1, 5, exchange.Held)
	p.shows(7, true, true, true)
}

// Promise: a ticket that is removed while another one is expelled for it does not hold beside the next one.
func TestATicketThatIsRemovedWhileItExpelsIsNotHeld(t *testing.T) {
	for what, others := range map[string]bool{"it alone": false, "the others, too": true} {
		t.Run(what, func(t *testing.T) {
			p := newPermits(t)
			first := p.join(1, 5, exchange.Held)
			odd, j := p.late(1, 7), p.request(4, 5)
			p.before(2, func() { // it has found the odd one
				remove := []string{j.ID}
				if others {
					remove = []string{odd.ID, j.ID}
					p.leave(first)
				}
				for _, id := range remove {
					errtest.Must(p.s.Ask(t.Context(), "q", id, driver.Force))(t)
				}
				if others {
					p.join(4, 5, exchange.Held)
				}
			})
			if st, err := p.s.Join(t.Context(), j); !errors.Is(err, driver.ErrGone) {
				t.Errorf("two hold four of five permits: %+v, %v", st, err)
			}
		})
	}
}

// Promise: a ticket whose Join was refused, since it says another number, and that stands all the same, since the
// answer was lost, does not hold, and leaves.
func TestATicketOfAnotherNumberThanThatIsSetDoesNotHold(t *testing.T) {
	p := newPermits(t)
	p.resize(3)
	odd := p.late(1, 5)
	p.shows(3, false)
	odd.Retry = true
	if st, err := p.s.Join(t.Context(), odd); !errors.Is(err, driver.ErrGone) {
		t.Errorf("%+v, %v", st, err)
	}
	p.shows(3)
}

// Promise: who waits for all permits does not hold when the one in front of it leaves, which has all by the number that
// it was joined with, while another one still holds.
func TestAHandOverWaitsForAllThatHoldBeyondTheNumber(t *testing.T) {
	p := newPermits(t)
	first, second := p.join(2, 2, exchange.Held), p.join(2, 2, exchange.Waiting)
	p.resize(4)
	p.is(exchange.Held, second)
	p.resize(2)
	last := p.join(2, 2, exchange.Waiting)
	p.leave(second)
	p.is(exchange.Waiting, last)
	p.leave(first)
	p.is(exchange.Held, last)
}

// Promise: an exclusive holder is one that has all permits that there are, and no other holds beside it: of that it is
// told how it ended, and of no other.
func TestWhoHasAllPermitsThatAreSetIsInherited(t *testing.T) {
	p := newPermits(t)
	dies := &permits{T: t, s: p.s, o: begun(t, p.s)}
	first := dies.join(2, 3, exchange.Held)
	p.resize(2)
	dies.is(exchange.Held, first) // a heartbeat, which says that it has all by now
	second := p.join(1, 2, exchange.Waiting)
	p.resize(3)
	p.inherits(false, second) // the first one stands
	p.leave(second)
	p.resize(2)
	third := p.join(1, 2, exchange.Waiting)
	fourth := p.join(2, 2, exchange.Waiting)
	errtest.Must(p.s.End(t.Context(), dies.o, nil))(t)
	p.inherits(true, third)
	p.leave(third)
	p.inherits(true, fourth)
	p.resize(3)
	p.join(1, 3, exchange.Held)
	p.leave(fourth) // it has not all of them
	p.inherits(true, p.join(1, 3, exchange.Held))
}

// Promise: tokens that are raised, and a number that is set, leave each other as they are.
func TestANumberAndAFloorAreKeptBesideEachOther(t *testing.T) {
	p := newPermits(t)
	p.resize(2)
	for range keys.MaxSteps + 1 {
		noError(t, p.s.Raise(t.Context(), "q", 1<<30))
	}
	p.shows(2)
	p.resize(3)
	p.join(3, 3, exchange.Held)
	q, err := p.s.Read(t.Context(), "q", exchange.Follower{})
	if err != nil || q.Members[0].Token <= 1<<30 {
		t.Errorf("%+v, %v", q, err)
	}
}

// Promise: where the key cannot be read nobody is granted, holders stay, and an error says what to do.
func TestWhatIsNoNumberOfPermitsGrantsNothing(t *testing.T) {
	p := newPermits(t)
	first, held, next := p.join(2, 2, exchange.Held), p.join(1, 2, exchange.Waiting), p.join(1, 2, exchange.Waiting)
	p.resize(1)
	p.leave(first)
	p.is(exchange.Held, held)
	for _, garbage := range []string{
		"2", `{"number":{"permits":2},"other":1}`, `{"number":{"permits":-1}}`, `{"number":{"permits":"2"}}`, `{"number":{"permits":2,"set":1,"held":-1}}`, `{"number":{"permits":2,"set":1,"perhaps":-1}}`,
		`{"number":{"permits":2,"set":1,"held":2}}`, `{"number":{"permits":2,"set":1,"perhaps":2}}`, `{"number":{"permits":0,"set":1,"held":1}}`,
		`{"number":{"permits":2,"set":5000000,"held":4999999}}`, `{"number":{"permits":2,"held":4999999}}`, // of another cluster
	} {
		p.keeps("q", garbage)
		j := p.request(1, 2)
		_, err := p.s.Join(t.Context(), j)
		_, looked := p.s.Look(t.Context(), p.o, []exchange.Ref{*next})
		_, resized := p.s.Resize(t.Context(), "q", 3)
		for _, err := range []error{err, looked, resized} {
			if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "{floor}/q") || !strings.Contains(err.Error(), "interlock permits") {
				t.Errorf("%s: %v", garbage, err)
			}
		}
		if err := p.s.Keep(t.Context(), p.o, *next, time.Minute); !errors.Is(err, exchange.ErrNotHeld) {
			t.Errorf("%s: a waiter gets a fixed end: %v", garbage, err)
		}
	}
	p.evict(next) // which may hold, for all that one can know
	noError(t, p.s.Raise(t.Context(), "q", 1))
	p.resize(3)
	p.shows(3, true, true)
}

// Promise: waiters for permits hear at once of another number, and not of that of a queue in which they do not wait.
func TestAWaiterIsToldOfAnotherNumber(t *testing.T) {
	p := newPermits(t)
	p.join(2, 2, exchange.Held)
	p.join(1, 2, exchange.Waiting)
	event := func(queue string) *clientv3.Event {
		return &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(p.s.floor(queue))}}
	}
	numbers := p.s.watches.all[ofNumbers]
	for queue, want := range map[string]bool{"q": true, "other": false, "": false} {
		if got := p.s.concerns(numbers, clientv3.WatchResponse{Events: []*clientv3.Event{event(queue)}}); got != want {
			t.Errorf("a change of the queue %q: %v", queue, got)
		}
	}
	told := make(chan exchange.Event, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.s.Listen(ctx, p.o.Mailbox, func() {}, func(ev exchange.Event) { told <- ev }) }()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		p.s.watches.mu.Lock()
		begun := numbers.begun > 0
		p.s.watches.mu.Unlock()
		if begun {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("the watch does not begin")
		}
	}
	p.resize(3)
	for {
		select {
		case ev := <-told:
			if ev.Type == exchange.Wake {
				return
			}
		case err := <-ended:
			t.Fatalf("it is not told: %v", err)
		}
	}
}

// Promise: a waiter that has read before the watch of numbers stood, which others share, has that begin anew.
func TestAWatchOfNumbersMissesNone(t *testing.T) {
	t.Parallel()
	var w watches
	w.init()
	var begun []*watched
	w.listen(func(t *watched) { begun = append(begun, t) })
	set := func(read int64) {
		w.set(ofNumbers, watching{key: "a", end: "b", read: read, event: exchange.Event{Type: exchange.Wake}})
	}
	set(10)
	set(20)
	if len(begun) != 1 || w.complete(begun[0], 15) {
		t.Errorf("%d watches; one that has read at 10 misses what was at 12", len(begun))
	}
	set(15)
	w.told(begun[0])
	w.told(begun[0])
	set(20)
	if len(begun) != 1 {
		t.Errorf("%d watches", len(begun))
	}
	if set(14); len(begun) != 2 {
		t.Errorf("%d watches; one that has read at 14 misses what was at 15", len(begun))
	}
}

// Promise: what is known of a queue, and its line, are of one transaction, whatever else is asked for.
func TestAQueueIsReadInOneTransaction(t *testing.T) {
	t.Parallel()
	s := &store{}
	for n := range 2 * maxOps {
		l := s.newLook(exchange.Session{}, nil, false)
		for i := range n {
			l.get(fmt.Sprint(i), func(kvs) {})
		}
		l.front("q")
		mark, line := -1, len(l.ops)-1
		for i, op := range l.ops {
			if string(op.KeyBytes()) == s.mark("q") {
				mark = i
			}
		}
		if string(l.ops[line].KeyBytes()) != s.queue("q") || mark/maxOps != line/maxOps {
			t.Fatalf("behind %d questions: the mark is %d, the line %d", n, mark, line)
		}
	}
}
