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

// gated has transactions of a store held back.
func gated(s *store) *gate {
	g := &gate{KV: s.kv, arrived: make(chan struct{}), open: make(chan struct{})}
	s.kv = g
	return g
}

// together makes changes as one list, and then those alone that are to be. It says how many these are.
func together(ctx context.Context, t *testing.T, s *store, changes ...exchange.Change) (answers []exchange.Answer, alone int) {
	t.Helper()
	answers = make([]exchange.Answer, len(changes))
	before := s.Exchanges()
	s.Change(ctx, changes, func(i int, a exchange.Answer) { answers[i] = a })
	for i, a := range answers {
		if a.Err == exchange.ErrAlone {
			alone++
			answers[i] = exchange.Alone(ctx, s, changes[i])
		} else if n := s.Exchanges() - before; alone == 0 && n != 1 {
			t.Errorf("a list of %d took %d exchanges", len(changes), n)
		}
	}
	return answers, alone
}

// plain is a mutex of that name, without more.
func plain(o exchange.Session, name string) exchange.Join {
	j := mutex(o)
	j.Queue, j.ReportDeath = name, false
	return j
}

// Promise: locks of many names that one client takes at the same time share transactions.
func TestLocksOfManyNamesShareTransactions(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	var changes []exchange.Change
	for i := range perShared {
		j := plain(o, fmt.Sprintf("name%d", i))
		changes = append(changes, &j)
	}
	answers, alone := together(t.Context(), t, s, changes...)
	if alone != 0 {
		t.Errorf("%d Joins went alone", alone)
	}
	for i, a := range answers {
		q, err := s.Read(t.Context(), fmt.Sprintf("name%d", i), exchange.Follower{})
		if a.State != exchange.Held || err != nil || len(q.Members) != 1 || !q.Members[0].Held {
			t.Errorf("%+v, %+v, %v", a, q, err)
		}
	}
}

// Promise: of several that come to wait for one lock at the same time, one holds it.
func TestNewcomersOfOneQueueShareNoTransaction(t *testing.T) {
	onVersions(t, func(t *testing.T, of etcdtest.Option) {
		s := storeTo(t, etcdtest.Start(t, of))
		o := begun(t, s)
		all := []exchange.Join{plain(o, "q"), plain(o, "q"), plain(o, "other"), plain(o, "q")}
		answers, alone := together(t.Context(), t, s, &all[0], &all[1], &all[2], &all[3])
		if alone != 2 {
			t.Errorf("%d went alone", alone)
		}
		held := 0
		for _, a := range answers {
			if a.State == exchange.Held {
				held++
			}
			errtest.None(t, a.Err)
		}
		if held != 2 {
			t.Errorf("%d hold two mutexes", held)
		}
	})
}

// Promise: a change that cannot begin with a part of a transaction holds up none that can.
func TestOnlyWhatBeginsWithAPartSharesTransactions(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	busy, again, free := plain(o, "busy"), plain(o, "again"), plain(o, "free")
	joins(t.Context(), t, s, plain(o, "busy"), exchange.Held)
	busy.NoWait, again.Retry = true, true
	unknown := exchange.Leave{Ref: exchange.Ref{Queue: "left", ID: exchange.NewID()}, Session: o, Tombstone: time.Minute}
	answers, alone := together(t.Context(), t, s, &free, &busy, &again, &unknown)
	if alone != 3 || answers[0].State != exchange.Held || answers[1].Err != driver.ErrBusy || answers[2].State != exchange.Held || answers[3].Err != driver.ErrGone {
		t.Errorf("%+v; %d went alone", answers, alone)
	}
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
	var changes []exchange.Change
	for i, o := range sessions {
		j := plain(o, fmt.Sprintf("name%d", i))
		changes = append(changes, &j)
	}
	answers, alone := together(t.Context(), t, s, changes...)
	if alone != len(sessions) {
		t.Errorf("%d went alone, after the server has refused all of them", alone)
	}
	for i, a := range answers {
		switch {
		case i == 1 && !refused(a.Err):
			t.Errorf("what is to be refused: %+v", a)
		case i != 1 && (a.Err != nil || a.State != exchange.Held):
			t.Errorf("beside it: %+v", a)
		}
	}
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
		var changes []exchange.Change
		for i := range held {
			j := plain(o, fmt.Sprintf("name%d", i))
			changes = append(changes, &held[i], &j)
		}
		answers, _ := together(ctx, t, s, changes...)
		for i, a := range answers {
			if i%2 == 0 && a.Err != nil || i%2 == 1 && !errors.Is(a.Err, rpctypes.ErrNoSpace) {
				t.Errorf("change %d: %+v", i, a)
			}
		}
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

// Promise: also if the names of locks are below each other, such as jobs and jobs/1, two do not hold one of them. Who
// reads a long queue, from revision to revision, would miss some of the tickets that one transaction had made.
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
		const many = min(perJoin, perShared) - 1 // with the first one, and one of jobs, too many for one page; by their keys in front of that
		var changes []exchange.Change
		for i := range many {
			j := plain(o, fmt.Sprintf("jobs/-%d", i))
			changes = append(changes, &j)
		}
		j := plain(o, "jobs")
		answers, alone := together(t.Context(), t, s, append(changes, &j)...)
		if alone != 1 {
			t.Errorf("%d went alone", alone)
		}
		for _, a := range answers {
			if a.Err != nil || a.State != exchange.Held {
				t.Errorf("%+v", a)
			}
		}
		if st, err := join("jobs"); err != nil || st.State != exchange.Waiting {
			t.Errorf("behind the holder: %+v, %v", st, err)
		}
	})
}

// Promise: a Join that shares a transaction, and whose caller gives up while that is under way and leaves, makes no
// ticket, however late the transaction arrives. The others of it get theirs.
func TestWhoHasLeftDoesNotComeLateWithOthers(t *testing.T) {
	t.Parallel()
	s := storeTo(t, lent(t))
	o := begun(t, s)
	g := gated(s)
	g.hold(1)
	left, stays := mutex(o), mutex(o)
	left.Queue, stays.Queue = "left", "stays"
	answers := make([]exchange.Answer, 2)
	made := make(chan struct{})
	go func() {
		defer close(made)
		s.Change(t.Context(), []exchange.Change{&left, &stays}, func(i int, a exchange.Answer) { answers[i] = a })
	}()
	<-g.arrived
	l := exchange.Leave{Ref: exchange.Ref{Queue: left.Queue, ID: left.ID}, Session: o, Clean: true, Tombstone: time.Minute}
	if _, err := s.Leave(t.Context(), l); err != driver.ErrGone {
		t.Errorf("it leaves before it comes: %v", err)
	}
	close(g.open)
	<-made
	if answers[0].Err != driver.ErrGone || answers[1].State != exchange.Held {
		t.Errorf("%+v", answers)
	}
	if q, err := s.Read(t.Context(), left.Queue, exchange.Follower{}); err != nil || len(q.Members) > 0 {
		t.Errorf("it stands: %+v, %v", q, err)
	}
}

// Promise: if the reply of a transaction is lost, all who share it find out, when they ask again, what became of their
// own.
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
	gated(s).lose()
	answers, _ := together(ctx, t, s, &leave, &free, &behind)
	for i, a := range answers {
		if !errors.Is(a.Err, errLate) {
			t.Errorf("change %d: %+v", i, a)
		}
	}
	if _, err := s.Leave(ctx, leave); err != driver.ErrGone {
		t.Errorf("who has left: %v", err)
	}
	free.Retry, behind.Retry = true, true
	joins(ctx, t, s, free, exchange.Held)
	joins(ctx, t, s, behind, exchange.Waiting)
}
