package etcdlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// long is a queue that is taken for a very long one. Its last ticket has the lowest key, so that the sample for it is
// of tickets with the next keys, and those right in front of it have the highest ones.
type long struct {
	*testing.T
	s     *store
	sorts atomic.Int64 // that servers were asked for
	o     []exchange.Session
	refs  []exchange.Ref
}

func newLong(t *testing.T, of etcdtest.Option) *long {
	l := &long{T: t}
	l.s = storeTo(t, etcdtest.Start(t, of), grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if r, ok := request.(*pb.TxnRequest); ok {
			for _, op := range r.Success {
				if op.GetRequestRange().GetSortOrder() != pb.RangeRequest_NONE {
					l.sorts.Add(1)
				}
			}
		}
		return invoke(ctx, method, request, reply, conn, opts...)
	}))
	l.s.veryLong = perJoin
	for range 2 * perJoin {
		l.join("8", mutex)
	}
	for range 3 {
		l.join("f", mutex)
	}
	return l
}

// join has a ticket of a session come whose keys begin so.
func (l *long) join(begins string, kind func(exchange.Session) exchange.Join) exchange.Status {
	l.Helper()
	o := exchange.Session{ID: begins + exchange.NewID()[len(begins):], TTL: time.Minute, Mailbox: exchange.NewMailbox()}
	errtest.Must(l.s.Begin(l.Context(), o))(l)
	j := kind(o)
	j.ReportDeath = false
	st, err := l.s.Join(l.Context(), j)
	noError(l, err)
	l.o, l.refs = append(l.o, o), append(l.refs, exchange.Ref{Queue: j.Queue, ID: j.ID, Tag: st.Tag})
	return st
}

func (l *long) look(i int) exchange.Status {
	l.Helper()
	all, err := l.s.Look(l.Context(), l.o[i], l.refs[i:i+1])
	noError(l, err)
	l.refs[i].Tag = all[0].Tag
	return all[0]
}

func (l *long) leave(i int) {
	l.Helper()
	errtest.Must(l.s.Leave(l.Context(), exchange.Leave{Ref: l.refs[i], Session: l.o[i], Clean: true}))(l)
}

// watched is which ticket the last one watches, and whether that is noted as the one in front of it.
func (l *long) watched() (i int, inFront bool) {
	l.Helper()
	key, created := l.s.watches.blocker(l.refs[len(l.refs)-1])
	i = slices.IndexFunc(l.refs, func(r exchange.Ref) bool { return slices.Contains(l.s.keys(l.o[slices.Index(l.refs, r)], r), key) })
	if i < 0 {
		l.Fatalf("it watches %q", key)
	}
	return i, created != 0
}

// Promise: no server sorts a very long queue for a newcomer. When the ticket has left that it watches, it is sorted
// once, also if that one held and left the next ones in front: nobody is granted who has others in front.
func TestAVeryLongQueueIsSortedForAWaiterOnce(t *testing.T) {
	onVersions(t, func(t *testing.T, of etcdtest.Option) {
		for _, held := range []bool{true, false} {
			t.Run(fmt.Sprintf("held=%v", held), func(t *testing.T) {
				t.Parallel()
				l := newLong(t, of)
				last := len(l.refs)
				l.sorts.Store(0)
				if st := l.join("0", mutex); st.State != exchange.Waiting || l.sorts.Load() != 0 {
					t.Fatalf("it is %+v, after %d sorts", st, l.sorts.Load())
				}
				far, _ := l.watched()
				for range 2 {
					if again, inFront := l.watched(); inFront || far >= last-3 || again != far {
						t.Fatalf("it watches ticket %d of %d; in front of it: %v", again, last, inFront)
					}
					l.look(last) // as when its watch has begun
				}
				left := 0
				for ; held && left < far; left++ {
					l.look(left)
					l.leave(left)
				}
				if held {
					if st := l.look(far); st.State != exchange.Held {
						t.Fatalf("it is the turn of the one that is watched, and it is %+v", st)
					}
				}
				l.leave(far)
				l.sorts.Store(0)
				before := l.s.Exchanges()
				if st := l.look(last); st.State != exchange.Waiting || l.sorts.Load() != 1 || l.s.Exchanges()-before != 2 {
					t.Fatalf("others are in front of it, and it is %+v, after %d sorts and %d exchanges", st, l.sorts.Load(), l.s.Exchanges()-before)
				}
				if i, inFront := l.watched(); i != last-1 || !inFront {
					t.Fatalf("it watches ticket %d of %d; in front of it: %v", i, last, inFront)
				}
				for i := range last {
					if i < left || i == far {
						continue
					}
					if st := l.look(last); st.State != exchange.Waiting {
						t.Fatalf("ticket %d of %d is in front of it, and it is %+v", i, last, st)
					}
					l.leave(i)
				}
				if st := l.look(last); st.State != exchange.Held || st.Wanted {
					t.Errorf("nobody is in front of it, and it is %+v", st)
				}
			})
		}
	})
}

// Promise: who finds no ticket in front of it in the sample, since all of that have come later, watches another one
// that is.
func TestASampleOfLaterTicketsIsNotWatched(t *testing.T) {
	t.Parallel()
	l := newLong(t, etcdtest.Of(etcdtest.Installed))
	kv := l.s.kv
	var later *long
	l.s.kv = &beforeTxn{KV: kv, n: 3, do: func() { // one begins its session
		l.s.kv = kv
		later = &long{T: t, s: l.s}
		for range perSample {
			later.join("1", mutex)
		}
	}}
	if st := l.join("0", mutex); st.State != exchange.Waiting || len(later.refs) != perSample {
		t.Fatalf("it is %+v", st)
	}
	if i, inFront := l.watched(); i == len(l.refs)-1 || inFront {
		t.Errorf("it watches ticket %d of %d; in front of it: %v", i, len(l.refs)-1, inFront)
	}
}

// Promise: no server sorts a very long queue for a Join that is repeated, also if no ticket in front of it has a later
// key.
func TestARepeatedJoinSortsNoVeryLongQueue(t *testing.T) {
	t.Parallel()
	for _, begins := range []string{"0", "ffff"} {
		l := newLong(t, etcdtest.Of(etcdtest.Installed))
		var j exchange.Join
		l.join(begins, func(o exchange.Session) exchange.Join {
			j = mutex(o)
			return j
		})
		last := len(l.refs) - 1
		l.s.watches.drop(ofTicket(j.ID))
		l.sorts.Store(0)
		j.Retry = true
		if st, err := l.s.Join(t.Context(), j); err != nil || st.State != exchange.Waiting || l.sorts.Load() != 0 {
			t.Fatalf("it is %+v, after %d sorts: %v", st, l.sorts.Load(), err)
		}
		if i, inFront := l.watched(); i >= last || inFront {
			t.Errorf("it watches ticket %d of %d; in front of it: %v", i, last, inFront)
		}
	}
}

// Promise: keys of queues below make no queue very long: its waiters watch the ticket in front of them.
func TestAShortQueueAboveALongOneIsShort(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	s.veryLong = perJoin
	for i := range 2 * perJoin {
		errtest.Must(s.client.Put(t.Context(), fmt.Sprintf("q/job-%d/x", i), ""))(t)
	}
	holder, waiter := mutex(begun(t, s)), mutex(begun(t, s))
	errtest.Must(s.Join(t.Context(), holder))(t)
	for _, waiter.Retry = range []bool{false, true} {
		st := errtest.Must(s.Join(t.Context(), waiter))(t)
		key, created := s.watches.blocker(exchange.Ref{Queue: "q", ID: waiter.ID, Tag: st.Tag})
		if key != s.seat(holder.Session, "q", holder.ID) || created == 0 {
			t.Errorf("repeated=%v: it watches %s, created at %d", waiter.Retry, key, created)
		}
	}
}

// Promise: a writer that needs less than all by now is granted beside readers, though a reader is in front of it when
// the ticket has left that it has watched.
func TestAFarWriterThatWantsLessIsGrantedBesideReaders(t *testing.T) {
	t.Parallel()
	l := &long{T: t, s: storeTo(t, lent(t))}
	l.s.veryLong = perJoin
	of := func(units int64) func(exchange.Session) exchange.Join {
		return func(o exchange.Session) exchange.Join {
			j := mutex(o)
			j.Queue, j.Kind, j.Units, j.Capacity = "rw", driver.RWMutex, units, driver.RWCapacity
			return j
		}
	}
	l.join("f", of(driver.RWCapacity))
	for range perJoin + 5 {
		l.join("8", of(1))
	}
	l.join("f", of(1))
	l.join("0", of(driver.RWCapacity))
	far, _ := l.watched()
	last := len(l.refs) - 1
	ref := &l.refs[last]
	errtest.Must(l.s.Shrink(t.Context(), l.o[last], *ref, 1))(t)
	l.leave(0)
	l.leave(far)
	if st := l.look(last); st.State != exchange.Held {
		t.Errorf("all in front are readers, and it is %+v", st)
	}
}

// Promise: a ticket of another kind is refused, also where the first keys of a long queue are of other queues, or of
// other programs.
func TestAMismatchIsFoundBehindOtherKeys(t *testing.T) {
	t.Parallel()
	server := lent(t)
	reads := func(o exchange.Session) exchange.Join {
		j := mutex(o)
		j.Kind, j.Capacity, j.ReportDeath = driver.RWMutex, driver.RWCapacity, false
		return j
	}
	for i, keys := range []string{"%s/-%d/x", "%s/-%d"} {
		for _, veryLong := range []int64{veryLong, perJoin} {
			s := storeTo(t, server)
			s.veryLong = veryLong
			queue := fmt.Sprintf("q%d-%d", i, veryLong)
			reader, other := reads(begun(t, s)), mutex(begun(t, s))
			reader.Queue, other.Queue = queue, queue
			errtest.Must(s.Join(t.Context(), reader))(t)
			for i := range perJoin + 5 {
				errtest.Must(s.client.Put(t.Context(), fmt.Sprintf(keys, queue, i), ""))(t)
			}
			if st, err := s.Join(t.Context(), other); err != driver.ErrMismatch {
				t.Errorf("a mutex in the queue of a reader, behind %q: %+v, %v", keys, st, err)
			}
		}
	}
}

// Promise: the writers of a very long line are served in their order, each alone, though readers and other programs
// stand between them, some give up, and the session of some ends.
func TestAVeryLongLineIsServedInItsOrder(t *testing.T) {
	onVersions(t, func(t *testing.T, of etcdtest.Option) {
		server := etcdtest.Start(t, of)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		type waiter struct {
			driver.Session
			driver.Ticket
		}
		var sessions []driver.Session
		for range 4 {
			s := storeTo(t, server)
			s.veryLong = perJoin
			d := exchange.New(s, exchange.NewMailbox())
			t.Cleanup(func() { _ = d.Close() })
			for range 3 {
				o := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: 5 * time.Minute}))(t)
				sessions = append(sessions, o)
			}
		}
		mortal := sessions[len(sessions)-1]
		etcd := storeTo(t, server).client
		var line []waiter
		for i := range 120 {
			o := sessions[rand.N(len(sessions)-1)]
			if i%7 == 6 {
				o = mortal
			}
			r := driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.RWMutex, Units: 1000, Capacity: 1000}
			if i%3 == 1 {
				r.Units = 1 // a reader
			}
			k, err := o.Join(ctx, r)
			if err != nil || k.Held != (i == 0) {
				t.Fatalf("Join of %d: %+v, %v", i, k, err)
			}
			line = append(line, waiter{o, k})
			if i%20 == 10 {
				errtest.Must(etcd.Put(ctx, fmt.Sprintf("q/%d", rand.Uint32()), "another program"))(t)
			}
		}
		var mu sync.Mutex
		var order []int
		inside, writers := 0, 0
		var all sync.WaitGroup
		for i, w := range line {
			all.Go(func() {
				mine, cancel := ctx, context.CancelFunc(func() {})
				if i%5 == 4 { // it gives up
					mine, cancel = context.WithTimeout(ctx, rand.N(2*time.Second))
				}
				defer cancel()
				got, err := w.Await(mine, w.Ticket)
				if err != nil && mine.Err() != nil && ctx.Err() == nil {
					if err := w.Leave(ctx, w.Ticket, true); err != nil && w.Session != mortal {
						t.Errorf("Leave of %d: %v", i, err)
					}
					return
				}
				if err != nil {
					if w.Session != mortal {
						t.Errorf("Await of %d: %v", i, err)
					}
					return
				}
				if w.Session != mortal { // whose lock may end while it is used
					writes := i%3 != 1
					mu.Lock()
					if inside++; writes {
						writers++
						order = append(order, i)
					}
					if writers > 0 && inside > 1 {
						t.Errorf("%d is not alone", i)
					}
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					if inside--; writes {
						writers--
					}
					mu.Unlock()
				}
				if err := w.Leave(ctx, got, true); err != nil && w.Session != mortal {
					t.Errorf("Leave of %d: %v", i, err)
				}
			})
		}
		all.Go(func() {
			time.Sleep(rand.N(time.Second))
			errtest.Is(t, mortal.Close(ctx), nil, "Close")
		})
		var others sync.WaitGroup
		served, end := context.WithCancel(ctx)
		others.Go(func() { // the other programs leave as they come to the front
			for served.Err() == nil {
				first, err := etcd.Get(ctx, "q/", clientv3.WithFirstCreate()...)
				if err == nil && len(first.Kvs) > 0 && string(first.Kvs[0].Value) == "another program" {
					_, _ = etcd.Delete(ctx, string(first.Kvs[0].Key))
				}
				time.Sleep(time.Millisecond)
			}
		})
		all.Wait()
		end()
		others.Wait()
		if !slices.IsSorted(order) {
			t.Errorf("writers are served as %v", order)
		}
	})
}
