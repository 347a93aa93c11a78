package etcdlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// These are about what a number of permits may not do to other locks, and to who holds.

// Promise: a number whose revisions are of another cluster, from which the keys were copied, grants nobody.
func TestANumberOfAnotherClusterGrantsNobody(t *testing.T) {
	p := newPermits(t)
	p.keeps("q", `{"number":{"permits":1,"set":5000000,"held":4999999}}`)
	for range 3 {
		j := p.request(1, 1)
		if st, err := p.s.Join(t.Context(), j); !driver.IsPermanent(err) {
			t.Errorf("%+v, %v", st, err)
		}
	}
}

// filled has a database of two megabytes filled.
func filled(t *testing.T, s *store) {
	t.Helper()
	for err := error(nil); !errors.Is(err, rpctypes.ErrNoSpace); {
		if _, err = s.client.Put(t.Context(), "k", strings.Repeat("x", 100_000)); err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatal(err)
		}
	}
}

// Promise: what cannot be written of a number of permits, since the database is full, fails no heartbeat: the client
// keeps what it holds.
func TestANumberInAFullDatabaseFailsNoHeartbeat(t *testing.T) {
	for name, test := range map[string]func(p *permits, other *exchange.Ref){
		"a waiter can never fit": func(p *permits, other *exchange.Ref) {
			p.join(1, 2, exchange.Held)
			next := p.join(2, 2, exchange.Waiting)
			p.dies(1)
			clear(p.s.spares) // as in another client
			filled(p.T, p.s)
			p.beat(exchange.Waiting, next)
			p.beat(exchange.Held, other)
		},
		"a holder comes to have all": func(p *permits, other *exchange.Ref) {
			first, second := p.join(2, 5, exchange.Held), p.join(1, 5, exchange.Held)
			p.resize(2)
			filled(p.T, p.s)
			p.leave(second)
			p.beat(exchange.Held, other, first)
			p.beat(exchange.Held, other, first)
		},
		"a holder has just got another end": func(p *permits, other *exchange.Ref) {
			noError(p, p.s.Keep(p.Context(), p.o, *other, time.Minute))
			other.Tag = 0
			filled(p.T, p.s)
			p.beat(exchange.Held, other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storeTo(t, etcdtest.Start(t, etcdtest.Flag("--quota-backend-bytes=2000000")))
			p := &permits{T: t, s: s, o: begun(t, s)}
			test(p, p.other())
		})
	}
}

// Promise: a grant that cannot be written fails no heartbeat: the client keeps what it holds, and is granted at the
// next one.
func TestAGrantThatFailsFailsNoHeartbeat(t *testing.T) {
	p := newPermits(t)
	other, first, next := p.other(), p.join(2, 2, exchange.Held), p.join(2, 2, exchange.Waiting)
	p.leave(first)
	kv := p.s.kv
	p.s.kv = &lateTxn{KV: kv, late: 3} // what stands, the line, the grant
	r, err := p.s.Renew(t.Context(), p.o, []exchange.Ref{*other, *next}, 2)
	p.s.kv = kv
	if err != nil || r.Tickets[0].State != exchange.Held || r.Tickets[1].State != exchange.NotAsked {
		t.Errorf("%+v, %v", r, err)
	}
	p.beat(exchange.Held, other, next)
}

// Promise: a key that cannot be read fails no heartbeat: who holds keeps that, and of those that wait for this lock
// nothing is said. A look that is about nothing else says why.
func TestAKeyThatCannotBeReadFailsNoHeartbeat(t *testing.T) {
	p := newPermits(t)
	other := p.other()
	one, permit := p.join(1, 2, exchange.Held), p.join(2, 2, exchange.Waiting)
	p.resize(5)
	p.beat(exchange.Held, permit)
	p.leave(one)
	held, next := mutex(p.o), mutex(p.o)
	held.Queue, next.Queue = "m", "m"
	var refs []*exchange.Ref
	for _, j := range []exchange.Join{held, next} {
		st := errtest.Must(p.s.Join(t.Context(), j))(t)
		refs = append(refs, &exchange.Ref{Queue: "m", ID: j.ID, Tag: st.Tag})
	}
	for _, queue := range []string{"q", "m", ""} {
		p.keeps(queue, "2")
		p.beat(exchange.Held, other, permit, refs[0])
	}
	marked, err := p.s.client.Get(t.Context(), p.s.mark("q"))
	if err != nil || marked.Count > 0 {
		t.Errorf("by which number has it all? %+v, %v", marked, err)
	}
	p.s.watches.drop(ofTicket(next.ID)) // else it is enough that the one in front stands
	p.beat(exchange.NotAsked, refs[1])
	found, err := p.s.Look(t.Context(), p.o, []exchange.Ref{*other, *refs[1]})
	if err != nil || found[0].State != exchange.Held || found[1].State != exchange.NotAsked {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := p.s.Look(t.Context(), p.o, []exchange.Ref{*refs[1]}); !driver.IsPermanent(err) {
		t.Error(err)
	}
}

// Promise: who gives up before it has heard that it holds takes nothing away from the next one: that is told how the
// holder before both has ended.
func TestWhoHasNotHeardOfItsGrantInheritsNothing(t *testing.T) {
	for name, number := range map[string]int64{"no number is set": 0, "one is set": 2} {
		for _, gone := range []string{"the answer", "the event", "that of its Join"} {
			t.Run(fmt.Sprintf("%s, %s is lost", name, gone), func(t *testing.T) {
				p := newPermits(t)
				first, second, third := p.join(2, 2, exchange.Held), p.join(2, 2, exchange.Waiting), p.join(2, 2, exchange.Waiting)
				if number > 0 {
					p.resize(number)
				}
				p.force(first)
				switch gone {
				case "the answer": // of a look
					lost := *second
					p.inherits(true, &lost)
				case "that of its Join":
					second.Tag = 0
				}
				p.leave(second)
				p.inherits(true, third)
			})
		}
	}
}

// Promise: a holder that has not all permits, by the number that is in force when it leaves, ends nothing that others
// inherit.
func TestWhoHasNotAllPermitsEndsNothing(t *testing.T) {
	p := newPermits(t)
	first := p.join(2, 2, exchange.Held)
	j := p.request(2, 2) // it does not ask for ReportDeath
	st := errtest.Must(p.s.Join(t.Context(), j))(t)
	second := &exchange.Ref{Queue: "q", ID: j.ID, Tag: st.Tag}
	p.force(first)
	p.is(exchange.Held, second)
	p.resize(3)
	p.leave(second)
	p.inherits(true, p.join(1, 3, exchange.Held))
}

// Promise: a number that changes just when a waiter has read is not missed by that.
func TestAWaiterThatIsNotNotedYetHearsOfTheNumber(t *testing.T) {
	t.Parallel()
	s := &store{}
	s.watches.init()
	s.watches.listen(func(*watched) {})
	wait := func(id string, created, read int64) {
		t := &ticket{queue: "q", key: "q/" + id, row: row{Key: keys.Key{ID: id, Order: created, Kind: driver.Semaphore, Units: 1, Capacity: 2}}}
		s.watchWaiter(&seen{ticket: t, front: t}, read)
	}
	wait("early", 3, 5)
	numbers := s.watches.all[ofNumbers]
	s.watches.complete(numbers, 5)
	s.watches.drop(ofTicket("early"))
	if s.concerns(numbers, clientv3.WatchResponse{Events: []*clientv3.Event{{Kv: &mvccpb.KeyValue{Key: []byte(s.floor("q")), ModRevision: 25}}}}) {
		t.Error("nobody waits")
	}
	wait("late", 20, 20)
	if s.watches.all[ofNumbers] == numbers {
		t.Error("who has read at 20 misses the number of 25")
	}
	numbers = s.watches.all[ofNumbers]
	s.watches.complete(numbers, 30)
	if wait("later", 31, 31); s.watches.all[ofNumbers] != numbers {
		t.Error("who has read at 31 has it begin anew")
	}
}

// Promise: who holds by a number that got lost, since its key cannot be read, stays when tokens are raised, when others
// join, and when a number is set again.
func TestWhoHoldsByANumberThatIsLostStays(t *testing.T) {
	p := newPermits(t)
	first := p.join(3, 3, exchange.Held)
	p.resize(7)
	second, third := p.join(3, 7, exchange.Held), p.join(1, 7, exchange.Held)
	p.keeps("q", "2")
	noError(t, p.s.Raise(t.Context(), "q", 1))
	p.join(1, 3, exchange.Waiting)
	p.is(exchange.Held, first, second, third)
	p.evict(third) // it is asked, since it may hold
	p.is(exchange.Held, third)
	p.resize(2)
	p.is(exchange.Held, first, second, third)
	p.leave(first, second)
	p.shows(2, true, true)
}

// Promise: a holder that gives back some of its permits holds the others, also where nobody else knows that it was
// held.
func TestAHolderThatShrinksHoldsTheRest(t *testing.T) {
	p := newPermits(t)
	first, second := p.join(2, 4, exchange.Held), p.join(2, 4, exchange.Held)
	p.keeps("q", `{"number":{"permits":1}}`) // which says nothing of who was held
	errtest.Must(p.s.Shrink(t.Context(), p.o, *second, 1))(t)
	second.Tag = 0
	p.is(exchange.Held, second)
	second.Tag = 0
	p.keeps("q", "2")
	p.beat(exchange.Held, first, second)
	errtest.Is(t, p.s.Keep(t.Context(), p.o, *second, time.Minute), nil)
}

// Promise: a ticket is not held by the tag of another one.
func TestATagSaysNothingOfAnotherTicket(t *testing.T) {
	p := newPermits(t)
	first, next := p.join(2, 2, exchange.Held), p.join(2, 2, exchange.Waiting)
	tag := first.Tag &^ tagSeat
	next.Tag = tag | next.Tag&tagSeat
	p.is(exchange.Waiting, next)
}

// Promise: a number that is taken back leaves nothing, once nobody stands for whom it was in force.
func TestANumberThatIsTakenBackLeavesNothing(t *testing.T) {
	p := newPermits(t)
	nothing := func() {
		t.Helper()
		got, err := p.s.client.Get(t.Context(), p.s.floor("q"))
		if err != nil || strings.Contains(string(got.Kvs[0].Value), "number") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	p.resize(3)
	p.resize(0)
	nothing()
	p.resize(3)
	held := p.join(3, 3, exchange.Held)
	p.resize(0)
	p.leave(held)
	p.join(2, 2, exchange.Held) // by its own number
	p.resize(0)
	nothing()
	p.join(1, 2, exchange.Waiting)
}

// Promise: tokens that are raised while a number is set stay so.
func TestTokensAreRaisedWhileANumberIsSet(t *testing.T) {
	p := newPermits(t)
	p.join(1, 3, exchange.Held)
	p.join(3, 3, exchange.Waiting)
	p.before(2, func() { // it has read who is held
		noError(t, p.s.Raise(t.Context(), "q", 1<<30))
	})
	p.resize(2)
	p.shows(2, true)
	if st, err := p.s.Join(t.Context(), p.request(1, 2)); err != nil || st.Token <= 1<<30 {
		t.Errorf("%+v, %v", st, err)
	}
}
