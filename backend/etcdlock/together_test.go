package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// onVersions runs a test on each version of the server.
func onVersions(t *testing.T, test func(t *testing.T, of etcdtest.Option)) {
	t.Parallel()
	for _, v := range []etcdtest.Version{etcdtest.Installed, etcdtest.Current} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			test(t, etcdtest.Of(v))
		})
	}
}

// gate holds the first transactions back until it is opened.
type gate struct {
	clientv3.KV
	mu      sync.Mutex
	n       int  // how many
	loses   bool // the reply of each one that it does not hold back
	arrived chan struct{}
	open    chan struct{}
}

func (g *gate) Txn(ctx context.Context) clientv3.Txn {
	g.mu.Lock()
	g.n--
	held, loses := g.n >= 0, g.loses
	g.mu.Unlock()
	if held {
		g.arrived <- struct{}{}
		select {
		case <-g.open:
		case <-ctx.Done():
		}
	} else if loses {
		return &unanswered{g.KV.Txn(ctx), g}
	}
	return g.KV.Txn(ctx)
}

// hold has so many more held back.
func (g *gate) hold(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n = n
}

// lose has the reply of the next transaction lost.
func (g *gate) lose() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loses = true
}

// unanswered is a transaction whose reply is lost.
type unanswered struct {
	clientv3.Txn
	of *gate
}

func (u *unanswered) If(all ...clientv3.Cmp) clientv3.Txn  { u.Txn = u.Txn.If(all...); return u }
func (u *unanswered) Then(all ...clientv3.Op) clientv3.Txn { u.Txn = u.Txn.Then(all...); return u }
func (u *unanswered) Else(all ...clientv3.Op) clientv3.Txn { u.Txn = u.Txn.Else(all...); return u }

func (u *unanswered) Commit() (*clientv3.TxnResponse, error) {
	if _, err := u.Txn.Commit(); err != nil {
		return nil, err
	}
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	u.of.loses = false
	return nil, errLate
}

// busy is a store of which as many transactions are under way, and stay so until the gate is opened, as are before
// changes wait for each other.
func busy(t *testing.T, s *store) (g *gate, others *sync.WaitGroup) {
	t.Helper()
	others = &sync.WaitGroup{}
	s.together.patience = time.Hour
	g = &gate{KV: s.kv, n: perClient, arrived: make(chan struct{}), open: make(chan struct{})}
	s.kv = g
	for range perClient {
		others.Go(func() {
			if _, err := s.changeIn(t.Context(), "busy", nil, []clientv3.Op{clientv3.OpGet("{x}")}, nil); err != nil {
				t.Error(err)
			}
		})
		<-g.arrived
	}
	return g, others
}

// plain is a mutex of that name, without more.
func plain(o exchange.Session, name string) exchange.Join {
	j := mutex(o)
	j.Queue, j.ReportDeath = name, false
	return j
}

// wait is until so many changes wait.
func (g *together) wait(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		have := 0
		g.mu.Lock()
		if g.next != nil {
			have = len(g.next.parts)
		}
		g.mu.Unlock()
		switch {
		case have == n:
			return
		case time.Now().After(end):
			t.Fatalf("%d changes wait, not %d", have, n)
		}
	}
}

// Promise: locks of many names that one client takes at the same time share transactions. A transaction that is full waits for
// nobody.
func TestLocksOfManyNamesShareTransactions(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	g, others := busy(t, s)
	const names = perShared + perShared/2
	before := s.Exchanges()
	for i := range names {
		j := plain(o, fmt.Sprintf("name%d", i))
		others.Go(func() {
			joins(t.Context(), t, s, j, exchange.Held)
		})
	}
	s.together.wait(t, names-perShared)
	close(g.open)
	others.Wait()
	if n := s.Exchanges() - before; n != 2 {
		t.Errorf("%d Joins took %d exchanges", names, n)
	}
	for i := range names {
		q, err := s.Read(t.Context(), fmt.Sprintf("name%d", i), exchange.Follower{})
		if err != nil || len(q.Members) != 1 || !q.Members[0].Held {
			t.Errorf("%+v, %v", q, err)
		}
	}
}

// Promise: of several that come to wait for one lock at the same time, one holds it, and they do not wait for each other.
func TestNewcomersOfOneQueueShareNoTransaction(t *testing.T) {
	onVersions(t, func(t *testing.T, of etcdtest.Option) {
		s := storeTo(t, etcdtest.Start(t, of))
		o := begun(t, s)
		g, others := busy(t, s)
		states := make(chan exchange.State, 3)
		for range cap(states) {
			j := plain(o, "q")
			others.Go(func() {
				st, err := s.Join(t.Context(), j)
				if err != nil {
					t.Error(err)
				}
				states <- st.State
			})
		}
		for end := time.Now().Add(20 * time.Second); len(states) < cap(states)-1; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Error("they wait for each other")
				break
			}
		}
		close(g.open)
		others.Wait()
		held := 0
		for range cap(states) {
			if <-states == exchange.Held {
				held++
			}
		}
		if held != 1 {
			t.Errorf("%d hold a mutex", held)
		}
	})
}

// Promise: a change that the server refuses takes no other one with it.
func TestAChangeThatIsRefusedTakesNoOtherWithIt(t *testing.T) {
	onVersions(t, func(t *testing.T, of etcdtest.Option) {
		s := storeTo(t, etcdtest.Start(t, of))
		o := begun(t, s)
		over := exchange.Session{ID: exchange.NewID(), TTL: time.Minute, Mailbox: o.Mailbox}
		oneIsRefused(t, s, []exchange.Session{o, over, o}, func(err error) bool { return err == driver.ErrSession })
	})
}

// oneIsRefused has three Joins share a transaction, of which the server refuses the second.
func oneIsRefused(t *testing.T, s *store, sessions []exchange.Session, refused func(error) bool) {
	t.Helper()
	g, others := busy(t, s)
	for i, o := range sessions {
		j := plain(o, fmt.Sprintf("name%d", i))
		others.Go(func() {
			st, err := s.Join(t.Context(), j)
			switch {
			case i == 1 && !refused(err):
				t.Errorf("what is to be refused: %+v, %v", st, err)
			case i != 1 && (err != nil || st.State != exchange.Held):
				t.Errorf("beside it: %+v, %v", st, err)
			}
		})
	}
	s.together.wait(t, len(sessions))
	close(g.open)
	others.Wait()
}

// Promise: also together, newcomers get no room in a database that is full, and holders leave.
func TestTogetherNobodyJoinsInAFullDatabase(t *testing.T) {
	onVersions(t, func(t *testing.T, of etcdtest.Option) {
		s := storeTo(t, etcdtest.Start(t, of, etcdtest.Flag("--quota-backend-bytes=2000000")))
		ctx := t.Context()
		o := begun(t, s)
		var held []exchange.Leave
		for i := range 3 {
			j := plain(o, fmt.Sprintf("held%d", i))
			st := joins(ctx, t, s, j, exchange.Held)
			held = append(held, exchange.Leave{Ref: exchange.Ref{Queue: j.Queue, ID: j.ID, Tag: st.Tag}, Session: o, Clean: true})
		}
		filled(t, s)
		g, others := busy(t, s)
		for i, l := range held {
			others.Go(func() {
				if _, err := s.Leave(ctx, l); err != nil {
					t.Errorf("Leave: %v", err)
				}
			})
			j := plain(o, fmt.Sprintf("name%d", i))
			others.Go(func() {
				if st, err := s.Join(ctx, j); !errors.Is(err, rpctypes.ErrNoSpace) {
					t.Errorf("Join: %+v, %v", st, err)
				}
			})
		}
		s.together.wait(t, 2*len(held))
		close(g.open)
		others.Wait()
	})
}

// Promise: also together, a user whose role may not write a name gets no lock of that name.
func TestTogetherAUserNeedsItsRights(t *testing.T) {
	onVersions(t, func(t *testing.T, of etcdtest.Option) {
		server := etcdtest.Start(t, of)
		for _, c := range []string{
			"user add root:secret", "user grant-role root root", "role add some", "user add app:secret", "user grant-role app some",
			"role grant-permission some readwrite --prefix=true {", "role grant-permission some readwrite --prefix=true name0/",
			"role grant-permission some readwrite --prefix=true name2/", "auth enable",
		} {
			server.Ctl(strings.Fields(c)...)
		}
		client := errtest.Must(clientv3.New(clientv3.Config{Endpoints: []string{server.Addr}, Logger: zap.NewNop(), Username: "app", Password: "secret"}))(t)
		s := errtest.Must(newStore(client, config{}, true))(t)
		t.Cleanup(s.Close)
		o := begun(t, s)
		oneIsRefused(t, s, []exchange.Session{o, o, o}, func(err error) bool { return errors.Is(err, rpctypes.ErrPermissionDenied) })
	})
}

// Promise: a change does not wait for others that are stuck.
func TestAChangeDoesNotWaitForOthersThatAreStuck(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	g, others := busy(t, s)
	s.together.patience = maxWait
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	joins(ctx, t, s, mutex(o), exchange.Held)
	close(g.open)
	others.Wait()
}

// Promise: a change whose caller gives up while it waits for others is not made.
func TestAChangeWhoseCallerGivesUpIsNotMade(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	g, others := busy(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := s.Join(ctx, mutex(o))
		gaveUp <- err
	}()
	other := mutex(o)
	other.Queue = "other"
	others.Go(func() {
		joins(t.Context(), t, s, other, exchange.Held)
	})
	s.together.wait(t, 2)
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	close(g.open)
	others.Wait()
	if q, err := s.Read(t.Context(), "q", exchange.Follower{}); err != nil || len(q.Members) > 0 {
		t.Errorf("it stands: %+v, %v", q, err)
	}
}

// Promise: also if the names of locks are below each other, such as jobs and jobs/1, two do not hold one of them. Who reads
// a long queue, from revision to revision, would miss some of the tickets that one transaction had made.
func TestLocksBelowEachOtherShareNoTransaction(t *testing.T) {
	onVersions(t, func(t *testing.T, of etcdtest.Option) {
		s := storeTo(t, etcdtest.Start(t, of))
		o := begun(t, s)
		join := func(name string) (exchange.Status, error) {
			return s.Join(t.Context(), plain(o, name))
		}
		if st, err := join("jobs/-first"); err != nil || st.State != exchange.Held {
			t.Fatalf("below: %+v, %v", st, err)
		}
		g, others := busy(t, s)
		const many = perJoin - 1 // with the first one, and one of jobs, too many for one page; by their keys in front of that
		for i := range many {
			others.Go(func() {
				if st, err := join(fmt.Sprintf("jobs/-%d", i)); err != nil || st.State != exchange.Held {
					t.Errorf("below: %+v, %v", st, err)
				}
			})
		}
		s.together.wait(t, many)
		held := make(chan error, 1)
		go func() {
			st, err := join("jobs")
			if err == nil && st.State != exchange.Held {
				err = fmt.Errorf("it is %+v", st)
			}
			held <- err
		}()
		select {
		case err := <-held: // it was not held up
			held <- err
		case <-time.After(time.Second):
		}
		close(g.open)
		others.Wait()
		errtest.Is(t, <-held, nil)
		if st, err := join("jobs"); err != nil || st.State != exchange.Waiting {
			t.Errorf("behind the holder: %+v, %v", st, err)
		}
	})
}

// Promise: a Join that shares a transaction, and whose caller gives up while that is under way and leaves, makes no ticket,
// however late the transaction arrives. The others of it get theirs.
func TestWhoHasLeftDoesNotComeLateWithOthers(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	g, others := busy(t, s)
	g.hold(1) // the next one too
	left, stays := mutex(o), mutex(o)
	left.Queue, stays.Queue = "left", "stays"
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := s.Join(ctx, left)
		gaveUp <- err
	}()
	others.Go(func() {
		joins(t.Context(), t, s, stays, exchange.Held)
	})
	s.together.wait(t, 2)
	s.together.mu.Lock()
	s.begin()
	s.together.mu.Unlock()
	<-g.arrived
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	l := exchange.Leave{Ref: exchange.Ref{Queue: left.Queue, ID: left.ID}, Session: o, Clean: true, Tombstone: time.Minute}
	if _, err := s.Leave(t.Context(), l); err != driver.ErrGone {
		t.Errorf("it leaves before it comes: %v", err)
	}
	close(g.open)
	others.Wait()
	if q, err := s.Read(t.Context(), left.Queue, exchange.Follower{}); err != nil || len(q.Members) > 0 {
		t.Errorf("it stands: %+v, %v", q, err)
	}
}

// Promise: if the reply of a transaction is lost, all who share it find out, when they ask again, what became of their own.
func TestALostReplyIsAskedForAgainByAllWhoShareIt(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	ctx := t.Context()
	o, other := begun(t, s), begun(t, s)
	held, free, behind := mutex(o), mutex(o), mutex(o)
	held.Queue, free.Queue, behind.Queue = "held", "free", "behind"
	first := errtest.Must(s.Join(ctx, held))(t)
	inFront := mutex(other)
	inFront.Queue = behind.Queue
	joins(ctx, t, s, inFront, exchange.Held)
	leave := exchange.Leave{Ref: exchange.Ref{Queue: held.Queue, ID: held.ID, Tag: first.Tag}, Session: o, Clean: true}
	g, others := busy(t, s)
	others.Go(func() {
		if _, err := s.Leave(ctx, leave); !errors.Is(err, errLate) {
			t.Errorf("Leave: %v", err)
		}
	})
	for _, j := range []exchange.Join{free, behind} {
		others.Go(func() {
			if st, err := s.Join(ctx, j); !errors.Is(err, errLate) {
				t.Errorf("Join: %+v, %v", st, err)
			}
		})
	}
	s.together.wait(t, 3)
	g.lose()
	close(g.open)
	others.Wait()
	if _, err := s.Leave(ctx, leave); err != driver.ErrGone {
		t.Errorf("who has left: %v", err)
	}
	free.Retry, behind.Retry = true, true
	joins(ctx, t, s, free, exchange.Held)
	joins(ctx, t, s, behind, exchange.Waiting)
}
