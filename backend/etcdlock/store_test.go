package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

var noError = errtest.None

// MaxAnswer is the longest answer, in bytes.
const MaxAnswer = maxAnswer

// storeTo is the store of a client, without what package exchange does for it.
func storeTo(t *testing.T, s *etcdtest.Server, opts ...grpc.DialOption) *store {
	t.Helper()
	client := errtest.Must(clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Logger: zap.NewNop(), DialOptions: opts}))(t)
	st := errtest.Must(newStore(client, config{}, true))(t)
	t.Cleanup(st.Close)
	return st
}

func begun(t *testing.T, s *store) exchange.Session {
	t.Helper()
	o := exchange.Session{ID: exchange.NewID(), TTL: time.Minute, Mailbox: exchange.NewMailbox()}
	errtest.Must(s.Begin(context.Background(), o))(t)
	return o
}

func mutex(o exchange.Session) exchange.Join {
	return exchange.Join{Session: o, Request: driver.Request{
		ID: exchange.NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1, ReportDeath: true,
	}}
}

// joins makes sure that a Join succeeds, and how its ticket stands then.
func joins(ctx context.Context, t testing.TB, s *store, j exchange.Join, want exchange.State) exchange.Status {
	t.Helper()
	st, err := s.Join(ctx, j)
	if err != nil || st.State != want {
		t.Errorf("%s: %+v, %v; want %v", j.Queue, st, err, want)
	}
	return st
}

// Promise: a holder whose grant was written, and whose reply was lost, is told the same again.
func TestAGrantThatIsSeenAgainInheritsAgain(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	dead, heir := begun(t, s), begun(t, s)
	if st, err := s.Join(ctx, mutex(dead)); err != nil || st.State != exchange.Held || st.Inherited {
		t.Fatalf("the first holder: %+v, %v", st, err)
	}
	errtest.Must(s.End(ctx, dead, nil))(t)
	j := mutex(heir)
	first, err := s.Join(ctx, j)
	if err != nil || first.State != exchange.Held || !first.Inherited {
		t.Fatalf("the next holder: %+v, %v", first, err)
	}
	j.Retry = true
	again, err := s.Join(ctx, j)
	if err != nil || again.State != exchange.Held || !again.Inherited || again.Token != first.Token {
		t.Errorf("the same again: %+v, %v", again, err)
	}
}

// Promise: each of two exchanges that see a grant for the first time, at the same time, is told of it.
func TestTwoSeeAGrantAtOnce(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	for range 20 {
		o, front := begun(t, s), begun(t, s)
		errtest.Must(s.Join(ctx, mutex(front)))(t)
		j := mutex(o)
		j.Hold = time.Hour
		joins(ctx, t, s, j, exchange.Waiting)
		errtest.Must(s.End(ctx, front, nil))(t)
		seen := make(chan error, 3)
		for range cap(seen) {
			go func() {
				st, err := s.Look(ctx, o, []exchange.Ref{{Queue: "q", ID: j.ID}})
				if err == nil && (st[0].State != exchange.Held || !st[0].Fixed || st[0].Left < time.Minute) {
					t.Errorf("it is seen as %+v", st[0])
				}
				seen <- err
			}()
		}
		for range cap(seen) {
			noError(t, <-seen)
		}
		errtest.Must(s.Leave(ctx, exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: j.ID}, Session: o, Clean: true}))(t)
		errtest.Must(s.End(ctx, o, nil))(t)
	}
}

// Promise: who leaves cleanly before its client has heard of its grant, which another exchange has
// written already, leaves nothing to inherit.
func TestAWaiterThatLeavesAsItIsGrantedLeavesNothingToInherit(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	o := begun(t, s)
	front, next := mutex(o), mutex(o)
	errtest.Must(s.Join(ctx, front))(t)
	waiting, err := s.Join(ctx, next)
	if err != nil || waiting.State != exchange.Waiting {
		t.Fatalf("a waiter: %+v, %v", waiting, err)
	}
	leave := func(j exchange.Join, tag uint64) {
		t.Helper()
		errtest.Must(s.Leave(ctx, exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: j.ID, Tag: tag}, Session: o, Clean: true}))(t)
	}
	leave(front, 0)
	if st, err := s.Look(ctx, o, []exchange.Ref{{Queue: "q", ID: next.ID}}); err != nil || st[0].State != exchange.Held {
		t.Fatalf("the waiter is seen as %+v, %v", st, err)
	}
	leave(next, waiting.Tag)
	if st, err := s.Join(ctx, mutex(o)); err != nil || st.State != exchange.Held || st.Inherited {
		t.Errorf("the holder after that: %+v, %v", st, err)
	}
}

// Promise: who is behind a waiter that gives up goes on to wait, and who is behind a holder that leaves holds, and is
// told so without a look at the whole queue.
func TestWhoIsBehindAWaiterThatGivesUpWaits(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	o := begun(t, s)
	var refs []exchange.Ref
	for range 6 {
		j := mutex(o)
		st := errtest.Must(s.Join(ctx, j))(t)
		refs = append(refs, exchange.Ref{Queue: "q", ID: j.ID, Tag: st.Tag})
	}
	look := func(i int) (st exchange.Status, exchanges uint64) {
		t.Helper()
		before := s.Exchanges()
		all := errtest.Must(s.Look(ctx, o, refs[i:i+1]))(t)
		refs[i].Tag = all[0].Tag
		return all[0], s.Exchanges() - before
	}
	leave := func(i int) {
		t.Helper()
		errtest.Must(s.Leave(ctx, exchange.Leave{Ref: refs[i], Session: o, Clean: true}))(t)
	}
	leave(0)
	look(1)
	leave(1)
	// It asks for ReportDeath: what it holds is written.
	if st, n := look(2); st.State != exchange.Held || !st.Wanted || st.Inherited || st.Token != refs[2].Tag>>tagBits || n != 2 {
		t.Errorf("behind a holder that has left, after %d exchanges: %+v", n, st)
	}
	leave(3)
	if st, _ := look(4); st.State != exchange.Waiting {
		t.Errorf("behind a waiter that has left, and a holder: %+v", st)
	}
	leave(2)
	if st, _ := look(4); st.State != exchange.Held {
		t.Errorf("the first in line: %+v", st)
	}
}

// Promise: a Detach that takes effect late moves no ticket that a heartbeat has proven meanwhile.
func TestALateDetachTakesNothingBack(t *testing.T) {
	t.Parallel()
	sent, pass := make(chan struct{}), make(chan struct{})
	hold := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if r, ok := request.(*pb.TxnRequest); ok && r.Success[0].GetRequestTxn() != nil {
			close(sent)
			<-pass
		}
		return invoke(ctx, method, request, reply, conn, opts...)
	}
	s := storeTo(t, lent(t), grpc.WithChainUnaryInterceptor(hold))
	ctx := t.Context()
	o := begun(t, s)
	j := mutex(o)
	errtest.Must(s.Join(ctx, j))(t)
	ref := []exchange.Ref{{Queue: "q", ID: j.ID}}
	detached := make(chan error, 1)
	go func() { detached <- s.Detach(ctx, o, ref) }()
	<-sent
	r, err := s.Renew(ctx, o, ref, 1)
	if err != nil || r.Tickets[0].State != exchange.Held || r.Tickets[0].Stray {
		t.Fatalf("it is named again: %+v, %v", r, err)
	}
	close(pass)
	noError(t, <-detached)
	if st, err := s.Look(ctx, o, ref); err != nil || st[0].Stray {
		t.Errorf("what was proven is a stray now: %+v, %v", st, err)
	}
}

// Promise: that holds also if the heartbeat names, before that ticket, another one that would have the same key.
func TestALateDetachBesideItsSeatTakesNothingBack(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	o := begun(t, s)
	j, left := mutex(o), mutex(o)
	left.ID = j.ID[:1] + left.ID[1:]
	errtest.Must(s.Join(ctx, j))(t)
	refs := []exchange.Ref{{Queue: "q", ID: left.ID}, {Queue: "q", ID: j.ID}}
	late := &lateTxn{KV: s.kv, late: 2} // the change
	s.kv = late
	errtest.MustBe(t, s.Detach(ctx, o, refs[1:]), errLate, "its reply is lost")
	s.kv = late.KV
	r, err := s.Renew(ctx, o, refs, 2)
	if err != nil || r.Tickets[1].State != exchange.Held || r.Tickets[1].Stray {
		t.Fatalf("it is named again: %+v, %v", r, err)
	}
	errtest.Must(late.arrive())(t)
	if st, err := s.Look(ctx, o, refs[1:]); err != nil || st[0].Stray {
		t.Errorf("what was proven is a stray now: %+v, %v", st, err)
	}
}

// Promise: a ticket whose Join arrives between two transactions of one heartbeat is not said to be held because the
// queue was read before that.
func TestATicketThatComesWhileManyAreReadIsNotGranted(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	o, other := begun(t, s), begun(t, s)
	j := mutex(o)
	var refs []exchange.Ref
	for range maxOps {
		refs = append(refs, exchange.Ref{Queue: "q", ID: exchange.NewID()})
	}
	refs = append(refs, exchange.Ref{Queue: "q", ID: j.ID})
	kv := s.kv
	s.kv = &beforeTxn{KV: kv, n: 3, do: func() { // the session, the queue and some tickets, more tickets
		s.kv = kv
		for _, j := range []exchange.Join{mutex(other), j} {
			if _, err := s.Join(ctx, j); err != nil {
				t.Error(err)
			}
		}
	}}
	r, err := s.Renew(ctx, o, refs, len(refs))
	if err != nil || r.Tickets[maxOps].State == exchange.Held {
		t.Errorf("another one holds: %+v, %v", r.Tickets[maxOps:], err)
	}
	if st, err := s.Look(ctx, o, refs[maxOps:]); err != nil || st[0].State != exchange.Waiting {
		t.Errorf("it waits: %+v, %v", st, err)
	}
}

// beforeTxn does something before a transaction.
type beforeTxn struct {
	clientv3.KV
	n  int // before which one
	do func()
}

func (b *beforeTxn) Txn(ctx context.Context) clientv3.Txn {
	if b.n--; b.n == 0 {
		b.do()
	}
	return b.KV.Txn(ctx)
}

// Promise: a session whose lease has ended before it was used, on a slow cluster, is asked for again by Open.
func TestASessionThatEndsBeforeItBeginsIsTriedAgain(t *testing.T) {
	t.Parallel()
	for when, hook := range map[string]func(s *store, end func()){
		"before its key is made": func(s *store, end func()) { s.kv = &beforeTxn{KV: s.kv, n: 1, do: end} },
		"before it is looked at": func(s *store, end func()) { s.lease = &beforeLook{s.lease, end} },
	} {
		s := storeTo(t, lent(t))
		o := exchange.Session{ID: exchange.NewID(), TTL: time.Minute, Mailbox: exchange.NewMailbox()}
		hook(s, func() { noError(t, s.revoke(t.Context(), leaseOf(o.ID))) })
		if _, err := s.Begin(t.Context(), o); !driver.IsPassing(s.Explain(err)) {
			t.Errorf("Begin, whose lease ends %s: %v; it must be an error that passes", when, err)
		}
	}
}

// Promise: a session of which less than a second is left when it is looked at has begun: servers say 0 then.
func TestASessionInItsLastSecondHasBegun(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	s.lease = lastSecond{s.lease}
	begun, err := s.Begin(t.Context(), exchange.Session{ID: exchange.NewID(), TTL: time.Minute, Mailbox: exchange.NewMailbox()})
	if err != nil || begun.TTL != time.Minute {
		t.Errorf("Begin: a TTL of %v, %v; want %v", begun.TTL, err, time.Minute)
	}
}

// lastSecond answers as a server does of a lease in its last second.
type lastSecond struct{ pb.LeaseClient }

func (l lastSecond) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest, opts ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	got, err := l.LeaseClient.LeaseTimeToLive(ctx, r, opts...)
	if err == nil {
		got.TTL = 0
	}
	return got, err
}

// beforeLook does something before it is asked how long a lease lives on.
type beforeLook struct {
	pb.LeaseClient
	do func()
}

func (b *beforeLook) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest, opts ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	b.do()
	return b.LeaseClient.LeaseTimeToLive(ctx, r, opts...)
}

// Promise: what a heartbeat has proven stands, also if the ticket is evicted at the same moment; and a ticket
// whose eviction was cut short is not extended either.
func TestAnEvictionTakesNothingBack(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	o := begun(t, s)
	j := mutex(o)
	errtest.Must(s.Join(ctx, j))(t)
	ref := exchange.Ref{Queue: "q", ID: j.ID}
	err := s.alter(ctx, o, ref, func(k *ticket, _ place) ([]clientv3.Op, error) { // the first part of it
		k.Evicted = true
		return []clientv3.Op{s.rewrite(k, k.lease)}, nil
	})
	noError(t, err)
	r, err := s.Renew(ctx, o, []exchange.Ref{ref}, 1)
	if err != nil || !r.Tickets[0].Evicted {
		t.Fatalf("it is evicted: %+v, %v", r, err)
	}
	got, err := s.kv.Get(ctx, s.seat(o, "q", j.ID))
	if err != nil || len(got.Kvs) != 1 || clientv3.LeaseID(got.Kvs[0].Lease) == leaseOf(o.ID) {
		t.Errorf("it is still extended with its session: %+v, %v", got, err)
	}
}

// Promise: a lock is as quick after many uses as before: a queue gets a few keys from each session, since the server
// passes each key that was ever there.
func TestManyUsesOfALockTakeFewKeys(t *testing.T) {
	t.Parallel()
	s := storeTo(t, etcdtest.Start(t))
	ctx := t.Context()
	o := begun(t, s)
	for range 100 {
		j := mutex(o)
		st := joins(ctx, t, s, j, exchange.Held)
		errtest.Must(s.Leave(ctx, exchange.Leave{Ref: exchange.Ref{Queue: j.Queue, ID: j.ID, Tag: st.Tag}, Session: o, Clean: true}))(t)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	keys, leaves := map[string]bool{}, 0
	for r := range s.client.Watch(ctx, s.queue("q"), clientv3.WithPrefix(), clientv3.WithRev(1)) {
		for _, ev := range r.Events {
			keys[string(ev.Kv.Key)] = true
			if ev.Type == clientv3.EventTypeDelete {
				leaves++
			}
		}
		if leaves == 100 {
			break
		}
	}
	if leaves != 100 || len(keys) > 16 {
		t.Errorf("%d uses have left %d keys", leaves, len(keys))
	}
}

// Promise: tickets that end by themselves, each in a queue of its own, do not fill the memory of a client.
func TestSeatsAreForgotten(t *testing.T) {
	t.Parallel()
	s := &store{seats: map[string]sitter{}}
	o := exchange.Session{ID: exchange.NewID()}
	for range 2 * maxSeats {
		id := exchange.NewID()
		s.sits(s.seat(o, id, id), sitter{id, 1})
	}
	if len(s.seats) > maxSeats {
		t.Errorf("%d are remembered", len(s.seats))
	}
}

// Promise: tickets of one session that would have the same seat stand beside each other; each is found again by its ID,
// and leaves.
func TestTicketsOfOneSeat(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	o := begun(t, s)
	var all []exchange.Join
	for range 3 {
		j := mutex(o)
		j.ID, j.Kind, j.Capacity = "0"+j.ID[1:], driver.Semaphore, 3
		all = append(all, j)
		for range 2 {
			joins(ctx, t, s, j, exchange.Held)
			j.Retry = true
		}
		if _, found, err := s.put(ctx, o, &ticket{queue: j.Queue, lease: leaseOf(o.ID), row: row{Key: keys.Key{ID: j.ID}}}, nil); !found || err != nil {
			t.Fatalf("one that has looked before it came makes a second key: %v", err)
		}
	}
	stand := func(want int) {
		t.Helper()
		q, err := s.Read(ctx, "q", exchange.Follower{})
		if err != nil || len(q.Members) != want {
			t.Fatalf("%d stand, not %d: %+v, %v", len(q.Members), want, q, err)
		}
	}
	stand(3)
	for i, j := range all {
		l := exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: j.ID}, Session: o, Clean: true, Tombstone: time.Minute}
		errtest.Must(s.Leave(ctx, l))(t)
		stand(2 - i)
		if _, err := s.Leave(ctx, l); err != driver.ErrGone {
			t.Errorf("it has left: %v", err)
		}
		if _, err := s.Join(ctx, j); err != driver.ErrGone {
			t.Errorf("it comes back: %v", err)
		}
	}
}

// Promise: a Join that found its seat taken, and arrives once more when the seat is free and its repetition stands
// there, makes no second ticket.
func TestALateJoinBesideItsSeatMakesNoSecondTicket(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	o := begun(t, s)
	first, second := mutex(o), mutex(o)
	first.ID, second.ID = "0"+first.ID[1:], "0"+second.ID[1:]
	st := errtest.Must(s.Join(ctx, first))(t)
	late := &lateTxn{KV: s.kv, late: 1} // it is known that the seat is taken
	s.kv = late
	if _, err := s.Join(ctx, second); !errors.Is(err, errLate) {
		t.Fatalf("its reply is lost: %v", err)
	}
	s.kv = late.KV
	errtest.Must(s.Leave(ctx, exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: first.ID, Tag: st.Tag}, Session: o, Clean: true}))(t)
	second.Retry = true
	errtest.Must(s.Join(ctx, second))(t)
	errtest.Must(late.arrive())(t)
	q, err := s.Read(ctx, "q", exchange.Follower{})
	if err != nil || len(q.Members) != 1 {
		t.Errorf("one ticket was asked for: %+v, %v", q, err)
	}
}

// lateTxn keeps one transaction back.
type lateTxn struct {
	clientv3.KV
	late   int // which one
	arrive func() (*clientv3.TxnResponse, error)
}

var errLate = errors.New("no reply")

func (l *lateTxn) Txn(context.Context) clientv3.Txn {
	l.late--
	return &keptTxn{Txn: l.KV.Txn(context.Background()), of: l, late: l.late == 0}
}

type keptTxn struct {
	clientv3.Txn
	of   *lateTxn
	late bool
}

func (k *keptTxn) If(all ...clientv3.Cmp) clientv3.Txn  { k.Txn = k.Txn.If(all...); return k }
func (k *keptTxn) Then(all ...clientv3.Op) clientv3.Txn { k.Txn = k.Txn.Then(all...); return k }
func (k *keptTxn) Else(all ...clientv3.Op) clientv3.Txn { k.Txn = k.Txn.Else(all...); return k }

func (k *keptTxn) Commit() (*clientv3.TxnResponse, error) {
	if k.late {
		k.of.arrive = k.Txn.Commit
		return nil, errLate
	}
	return k.Txn.Commit()
}

// Promise: a ticket that is removed between the two exchanges of its Join is gone, though nobody stands in front of it
// any more.
func TestATicketThatIsRemovedWhileItJoinsIsNotHeld(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	ctx := t.Context()
	mk := func() exchange.Join {
		j := mutex(o)
		j.ReportDeath = false
		return j
	}
	var refs []exchange.Ref
	for range perJoin + 1 { // so many that its Join takes two
		j := mk()
		st := errtest.Must(s.Join(ctx, j))(t)
		refs = append(refs, exchange.Ref{Queue: "q", ID: j.ID, Tag: st.Tag})
	}
	x, y := mk(), mk()
	kv := s.kv
	s.kv = &beforeTxn{KV: kv, n: 2, do: func() {
		s.kv = kv
		errtest.Must(s.Ask(ctx, "q", x.ID, driver.Evict))(t)
		for _, r := range refs {
			r.Tag = 0
			errtest.Must(s.Leave(ctx, exchange.Leave{Session: o, Ref: r, Clean: true}))(t)
		}
		joins(ctx, t, s, y, exchange.Held)
	}}
	st, err := s.Join(ctx, x)
	if err == nil && st.State == exchange.Held {
		t.Errorf("two hold a mutex: %+v", st)
	}
}

// Promise: a waiter that is removed while its line is read page by page is not held beside one that has come then.
func TestAWaiterThatIsRemovedWhileItsLineIsReadIsNotHeld(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o, ctx := begun(t, s), t.Context()
	join := func(units int64, want exchange.State) exchange.Ref {
		t.Helper()
		j := mutex(o)
		j.Kind, j.Units, j.Capacity, j.ReportDeath = driver.RWMutex, units, driver.RWCapacity, false
		joins(ctx, t, s, j, want)
		return exchange.Ref{Queue: "q", ID: j.ID}
	}
	var front []exchange.Ref
	for range perFront {
		front = append(front, join(1, exchange.Held))
	}
	front = append(front, join(driver.RWCapacity, exchange.Waiting))
	waiter, kv := join(1, exchange.Waiting), s.kv
	s.watches.drop(ofTicket(waiter.ID))
	s.kv = &beforeTxn{KV: kv, n: 3, do: func() { // its session, the first ones, the others
		s.kv = kv
		errtest.Must(s.Ask(ctx, "q", waiter.ID, driver.Evict))(t)
		for _, r := range front {
			errtest.Must(s.Leave(ctx, exchange.Leave{Session: o, Ref: r, Clean: true}))(t)
		}
		join(driver.RWCapacity, exchange.Held)
	}}
	if st, err := s.Look(ctx, o, []exchange.Ref{waiter}); err != nil || st[0].State == exchange.Held {
		t.Errorf("a reader and a writer hold: %+v, %v", st, err)
	}
}

// Promise: the end of a session leaves no ticket behind, also if one is evicted, or changed after its eviction, at
// the same moment.
func TestTheEndOfASessionLeavesNoTicketBehind(t *testing.T) {
	t.Parallel()
	server := lent(t)
	other := storeTo(t, server)
	for name, before := range map[string]bool{"evicted meanwhile": false, "changed meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			var j exchange.Join
			ask := func(what driver.Demand) { errtest.Must(other.Ask(ctx, name, j.ID, what))(t) }
			s := storeTo(t, server, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if strings.HasSuffix(method, "/LeaseRevoke") && !before {
					ask(driver.Evict)
				}
				return invoke(ctx, method, request, reply, conn, opts...)
			}))
			o := begun(t, s)
			j = mutex(o)
			j.Queue = name
			st := joins(ctx, t, s, j, exchange.Held)
			if before {
				ask(driver.Evict)
				s.kv = &beforeTxn{KV: s.kv, n: 2, do: func() { ask(driver.Revoke) }}
			}
			_, err := s.End(ctx, o, []exchange.Leave{{Session: o, Ref: exchange.Ref{Queue: name, ID: j.ID, Tag: st.Tag}}})
			noError(t, err)
			q := errtest.Must(other.Read(ctx, name, exchange.Follower{}))(t)
			if len(q.Members) != 0 {
				t.Errorf("%+v stand", q.Members)
			}
		})
	}
}

// Promise: one exchange says how a newcomer stands in a short queue, and two in a long one.
func TestANewcomerTakesOneExchangeInAShortQueue(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o, other := begun(t, s), begun(t, s)
	join := func(j exchange.Join, want exchange.State, exchanges uint64) {
		t.Helper()
		before := s.Exchanges()
		st, err := s.Join(t.Context(), j)
		if n := s.Exchanges() - before; err != nil || st.State != want || n != exchanges || st.Tag&tagWaited != 0 { // else its Leave writes more
			t.Errorf("it is %+v, %v, after %d exchanges", st, err, n)
		}
	}
	for i := range perJoin + 5 {
		want, most := exchange.Waiting, uint64(1)
		switch {
		case i == 0:
			want = exchange.Held
		case i == 1:
			most = 2 // it tells the holder
		case i > perJoin:
			most = 2
		}
		j := mutex(o)
		if i >= 16 { // all seats are taken
			j = mutex(other)
		}
		j.ID, j.ReportDeath = fmt.Sprintf("%x", i%16)+j.ID[1:], false
		join(j, want, most)
	}
	for i := range 10 {
		j := mutex(o)
		j.ID, j.ReportDeath, j.Queue, j.Kind, j.Capacity = fmt.Sprintf("%x", i)+j.ID[1:], false, "permits", driver.Semaphore, 10
		join(j, exchange.Held, 1)
	}
}

// Promise: a waiter is told to look once its watch has begun if what keeps it out may have left before that, and is not
// told so if it cannot have.
func TestAWaiterLooksIfItsWatchMayHaveBegunTooLate(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	o := begun(t, s)
	front, next, last := mutex(o), mutex(o), mutex(o)
	for i, j := range []exchange.Join{front, next, last} {
		st, err := s.Join(ctx, j)
		if err != nil || (st.State == exchange.Held) != (i == 0) {
			t.Fatalf("%+v, %v", st, err)
		}
	}
	errtest.Must(s.Leave(ctx, exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: front.ID}, Session: o, Clean: true}))(t)
	all, err := s.Look(ctx, o, []exchange.Ref{{Queue: "q", ID: last.ID}}) // nothing has changed since
	if err != nil || all[0].State != exchange.Waiting {
		t.Fatalf("%+v, %v", all, err)
	}
	told := make(chan string, 10)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	before := s.Exchanges()
	go func() {
		ended <- s.Listen(ctx, o.Mailbox, func() {}, func(ev exchange.Event) { told <- ev.ID })
	}()
	hear := func(id string) {
		t.Helper()
		select {
		case got := <-told:
			if got != id {
				t.Errorf("another one is told: %s, not %s", got, id)
			}
		case err := <-ended:
			t.Fatalf("it is not told: %v", err)
		}
	}
	hear(next.ID)
	busy.Until(t, "the watch of the last one has begun", func() bool {
		s.watches.mu.Lock()
		defer s.watches.mu.Unlock()
		return s.watches.all[ofTicket(last.ID)].begun > 0
	})
	errtest.Must(s.Leave(ctx, exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: next.ID}, Session: o, Clean: true}))(t)
	hear(last.ID) // which its watch brings
	if n := s.Exchanges() - before; n != 6 {
		t.Errorf("three watches, a question whether a key is as it was, and a Leave take %d exchanges", n)
	}
}

// Promise: nobody trusts the watch of an earlier ticket with the same ID: who was in front of that one says nothing
// about a later one. Not a Join that is repeated, nor a Look that knows of the earlier one only.
func TestNobodyTrustsTheWatchOfAnEarlierTicket(t *testing.T) {
	for _, looks := range []bool{false, true} {
		t.Run(fmt.Sprintf("looks=%v", looks), func(t *testing.T) {
			t.Parallel()
			s := storeTo(t, lent(t))
			ctx := t.Context()
			var o []exchange.Session
			var refs []exchange.Ref
			join := func(j exchange.Join) exchange.State {
				t.Helper()
				st := errtest.Must(s.Join(ctx, j))(t)
				o, refs = append(o, j.Session), append(refs, exchange.Ref{Queue: "q", ID: j.ID, Tag: st.Tag})
				return st.State
			}
			look := func(i int) exchange.State {
				t.Helper()
				all := errtest.Must(s.Look(ctx, o[i], refs[i:i+1]))(t)
				refs[i].Tag = all[0].Tag
				return all[0].State
			}
			leave := func(i int) {
				t.Helper()
				errtest.Must(s.Leave(ctx, exchange.Leave{Ref: refs[i], Session: o[i], Clean: true}))(t)
			}
			again := mutex(begun(t, s))
			join(mutex(begun(t, s)))
			join(mutex(begun(t, s)))
			join(again)
			leave(0)
			if st := look(1); st != exchange.Held {
				t.Fatalf("the next one is %v", st)
			}
			if _, err := s.client.Delete(ctx, s.seat(again.Session, "q", again.ID)); err != nil { // and its tombstone has ended
				t.Fatal(err)
			}
			join(mutex(begun(t, s)))
			late := &ticket{queue: "q", lease: leaseOf(again.Session.ID), row: row{
				Key: keys.Key{ID: again.ID, Kind: again.Kind, Units: 1, Capacity: 1}, Session: again.Session.ID, Mailbox: again.Session.Mailbox, TTL: again.Session.TTL,
			}}
			if _, found, err := s.put(ctx, again.Session, late, nil); err != nil || found { // whose reply is lost
				t.Fatal(found, err)
			}
			if looks {
				if st := look(2); st != exchange.Waiting {
					t.Fatalf("it is %v", st)
				}
			}
			leave(1)
			if st := look(3); st != exchange.Held {
				t.Fatalf("the next one is %v", st)
			}
			var st exchange.State
			if looks {
				st = look(2)
			} else {
				again.Retry = true
				st = join(again)
			}
			if st != exchange.Waiting {
				t.Errorf("another one holds, and it is %v", st)
			}
		})
	}
}

// Promise: a change that a watch brings is told, though a member does not answer whether its key was changed before it
// began. If there is no change, the waiter is told to look in the end, unless it waits no more.
func TestAChangeIsToldWhileAMemberDoesNotAnswer(t *testing.T) {
	for _, what := range []string{"nothing happens", "the holder leaves", "the watch is dropped"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := lent(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var stuck atomic.Bool
			asked := make(chan bool, 10)
			s, other := storeTo(t, server, grpc.WithChainUnaryInterceptor(func(of context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if !stuck.Load() {
					return invoke(of, method, request, reply, conn, opts...)
				}
				asked <- true
				if what == "the holder leaves" { // no answer before the end of the test
					of = ctx
				}
				<-of.Done()
				return of.Err()
			})), storeTo(t, server)
			holder, waiter := mutex(begun(t, other)), mutex(begun(t, s))
			errtest.Must(other.Join(ctx, holder))(t)
			errtest.Must(s.Join(ctx, waiter))(t)
			errtest.Must(other.client.Put(ctx, "other", ""))(t)
			stuck.Store(true)
			told := make(chan string, 10)
			ended := make(chan error, 1)
			go func() {
				ended <- s.Listen(ctx, waiter.Session.Mailbox, func() {}, func(ev exchange.Event) { told <- ev.ID })
			}()
			listened := func() {
				cancel()
				<-ended
			}
			select {
			case <-asked:
			case <-ctx.Done():
				t.Fatal("it does not ask")
			}
			switch what {
			case "the watch is dropped":
				s.watches.drop(ofTicket(waiter.ID))
				if listened(); len(told) > 0 {
					t.Errorf("%s is told, and waits no more", <-told)
				}
				return
			case "the holder leaves":
				errtest.Must(other.Leave(ctx, exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: holder.ID}, Session: holder.Session, Clean: true}))(t)
			}
			defer listened()
			select {
			case id := <-told:
				if id != waiter.ID {
					t.Errorf("%s is told", id)
				}
			case <-ctx.Done():
				t.Fatal("it is not told")
			}
		})
	}
}

// Promise: a permit that a slow Join finds granted, since another one was given back meanwhile, is written so: who has
// read the queue between hears that it is the first waiter. If nobody has, nothing is written.
func TestAPermitOfASlowJoinIsWritten(t *testing.T) {
	for _, read := range []bool{true, false} {
		t.Run(fmt.Sprintf("read=%v", read), func(t *testing.T) {
			t.Parallel()
			slowPermit(t, read)
		})
	}
}

// slowPermit joins while another one comes, if so, and a permit is given back.
func slowPermit(t *testing.T, read bool) {
	server := lent(t)
	s, other := storeTo(t, server), storeTo(t, server)
	ctx := t.Context()
	permit := func(o exchange.Session) exchange.Join {
		j := mutex(o)
		j.Kind, j.Capacity, j.ReportDeath = driver.Semaphore, perJoin+1, false
		return j
	}
	o := begun(t, s)
	var first exchange.Ref
	for i := range perJoin + 1 {
		j := permit(o)
		st := joins(ctx, t, s, j, exchange.Held)
		if i == 0 {
			first = exchange.Ref{Queue: "q", ID: j.ID, Tag: st.Tag}
		}
	}
	slow := permit(begun(t, s))
	kv := s.kv
	s.kv = &beforeTxn{KV: kv, n: 2, do: func() {
		s.kv = kv
		if read {
			joins(ctx, t, other, permit(begun(t, other)), exchange.Waiting)
		}
		errtest.Must(other.Leave(ctx, exchange.Leave{Ref: first, Session: o, Clean: true}))(t)
	}}
	joins(ctx, t, s, slow, exchange.Held)
	got, err := s.client.Get(ctx, s.seat(slow.Session, "q", slow.ID))
	if err != nil || len(got.Kvs) != 1 || (got.Kvs[0].ModRevision != got.Kvs[0].CreateRevision) != read {
		t.Errorf("its key: %+v, %v", got, err)
	}
}

// Promise: a waiter for a permit is told to look once its watch has begun if the ticket in front of it was granted
// before that: now it is the first, and has to hear of each holder that leaves.
func TestAWaiterLooksIfTheOneInFrontWasGrantedBeforeItsWatch(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	o := begun(t, s)
	var refs []exchange.Ref
	for range 4 {
		j := mutex(o)
		j.Kind, j.Capacity, j.ReportDeath = driver.Semaphore, 2, false
		st := errtest.Must(s.Join(ctx, j))(t)
		refs = append(refs, exchange.Ref{Queue: "q", ID: j.ID, Tag: st.Tag})
	}
	errtest.Must(s.Leave(ctx, exchange.Leave{Ref: refs[0], Session: o, Clean: true}))(t)
	if all, err := s.Look(ctx, o, refs[2:3]); err != nil || all[0].State != exchange.Held {
		t.Fatal(all, err)
	}
	told := make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Listen(ctx, o.Mailbox, func() {}, func(ev exchange.Event) { told <- ev.ID })
	}()
	for got := ""; got != refs[3].ID; { // a change of numbers is no event of a ticket
		select {
		case got = <-told:
		case err := <-ended:
			t.Fatalf("it is not told: %v", err)
		}
	}
}

// Promise: a waiter that is granted just as it is evicted is evicted as a holder: the next one waits for its end.
func TestAWaiterThatIsEvictedAsItIsGrantedIsEvictedAsAHolder(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	ctx := t.Context()
	var refs []exchange.Ref
	for range 3 {
		j := mutex(o)
		j.ReportDeath = false
		st := errtest.Must(s.Join(ctx, j))(t)
		refs = append(refs, exchange.Ref{Queue: "q", ID: j.ID, Tag: st.Tag})
	}
	kv := s.kv
	s.kv = &beforeTxn{KV: kv, n: 2, do: func() {
		s.kv = kv
		errtest.Must(s.Leave(ctx, exchange.Leave{Session: o, Ref: refs[0], Clean: true}))(t)
		if st := stateOf(t, s, o, &refs[1]); st != exchange.Held {
			t.Fatal(st)
		}
	}}
	errtest.Must(s.Ask(ctx, "q", refs[1].ID, driver.Evict))(t)
	if st := stateOf(t, s, o, &refs[2]); st == exchange.Held {
		t.Errorf("the next one holds at once, and nobody has forced that")
	}
}

// Promise: tokens of waiters are raised also where keys of a thousand queues below stand in front.
func TestTokensAreRaisedBehindKeysOfQueuesBelow(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	below(t, s, o)
	first := mutex(o)
	joins(t.Context(), t, s, first, exchange.Held)
	second := mutex(o)
	joins(t.Context(), t, s, second, exchange.Waiting)
	noError(t, s.Raise(t.Context(), "q", 1000000))
	errtest.Must(s.Leave(t.Context(), exchange.Leave{Session: o, Ref: exchange.Ref{Queue: "q", ID: first.ID}, Clean: true}))(t)
	all := errtest.Must(s.Look(t.Context(), o, []exchange.Ref{{Queue: "q", ID: second.ID}}))(t)
	if all[0].State != exchange.Held || all[0].Token <= 1000000 {
		t.Errorf("after a floor of 1000000: %+v", all[0])
	}
}

// below makes many keys of queues whose names begin with that of q and a slash.
func below(t *testing.T, s *store, o exchange.Session) {
	for i := 0; i < 1100; i += 100 {
		var ops []clientv3.Op
		for j := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("q/item%d/%s", i+j, exchange.NewID()), "", clientv3.WithLease(leaseOf(o.ID))))
		}
		errtest.Must(s.client.Txn(t.Context()).Then(ops...).Commit())(t)
	}
}

// stateOf looks at a ticket.
func stateOf(t *testing.T, s *store, o exchange.Session, ref *exchange.Ref) exchange.State {
	t.Helper()
	found := errtest.Must(s.Look(t.Context(), o, []exchange.Ref{*ref}))(t)
	ref.Tag = found[0].Tag
	return found[0].State
}

// Promise: what others write to queues of a client does not end its session, though an answer about all of these
// queues would be too long: a heartbeat names what it cannot ask about.
func TestAHeartbeatIsMadeInPartsIfItsAnswerIsTooLong(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	var refs []exchange.Ref
	for i := range maxAnswer>>21 + 1 {
		j := mutex(o)
		j.Queue = fmt.Sprint("q", i)
		refs = append(refs, exchange.Ref{Queue: j.Queue, ID: j.ID, Tag: joins(t.Context(), t, s, j, exchange.Held).Tag})
		for _, key := range []string{"/00", "/01"} { // the first keys of the queue
			errtest.Must(s.client.Put(t.Context(), j.Queue+key, strings.Repeat("x", 1<<20)))(t)
		}
	}
	got := errtest.Must(s.Renew(t.Context(), o, refs, len(refs)))(t)
	for i, st := range got.Tickets {
		if st.State != exchange.Held {
			t.Errorf("%s: %+v", refs[i].Queue, st)
		}
	}
	if _, err := s.read(t.Context(), []string{"q0"}); err != nil {
		t.Error(err)
	}
}

// Promise: a cell that no answer has room for, where the server takes such, hides no other.
func TestACellThatIsTooLongIsNamed(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Flag("--max-request-bytes", fmt.Sprint(2*maxAnswer)))
	s := storeTo(t, server)
	for _, name := range []string{"a", "c"} {
		errtest.Must(s.Swap(t.Context(), driver.Swap{Name: name, ID: exchange.NewID()}))(t)
	}
	client := errtest.Must(clientv3.New(clientv3.Config{Endpoints: []string{server.Addr}, MaxCallSendMsgSize: 2 * maxAnswer, Logger: zap.NewNop()}))(t)
	defer client.Close()
	busy.Until(t, "the cell is written", func() bool { // a slow disk has the server give up in between
		_, err := client.Put(t.Context(), s.cell("b"), strings.Repeat("1", maxAnswer))
		return err == nil
	})
	var names []string
	for name, err := range exchange.New(s, exchange.NewMailbox()).Cells(t.Context(), "") {
		if err != nil {
			errtest.Says(t, err, `"b" cannot be read`)
			break
		}
		names = append(names, name)
	}
	if !slices.Equal(names, []string{"a", "c"}) {
		t.Errorf("listed are %q", names)
	}
}

// Promise: changes whose answer is too long may have been made.
func TestWhatWasAnsweredAtTooGreatLengthMayBeMade(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	var joins []exchange.Change
	for i := range 4 {
		j := mutex(o)
		j.Queue = fmt.Sprint("q", i)
		joins = append(joins, &j)
		for k := range perJoin {
			errtest.Must(s.client.Put(t.Context(), fmt.Sprintf("%s/0%02d", j.Queue, k), strings.Repeat("x", 1<<20)))(t)
		}
	}
	s.Change(t.Context(), joins, func(i int, a exchange.Answer) {
		j := *joins[i].(*exchange.Join)
		if a.Err == nil || errors.Is(a.Err, exchange.ErrAlone) {
			t.Errorf("%s is answered with %+v", j.Queue, a)
		}
		j.Retry = true
		if st, err := s.Join(t.Context(), j); err != nil || st.State != exchange.Waiting {
			t.Errorf("%s, again: %+v, %v", j.Queue, st, err)
		}
	})
}
