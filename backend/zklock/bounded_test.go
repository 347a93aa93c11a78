package zklock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// stalled is a session of a long TTL at a server whose answers to creates are held back.
func stalled(t *testing.T) (*driver.Opened, *zktest.Proxy, *zktest.Hold) {
	t.Helper()
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	via := zktest.NewProxy(t, s.Addr)
	a := session(t, opened(t, via.Addr), 20*time.Minute)
	holds(t, a, aMutex("q"))
	return a, via, via.HoldReplies(zktest.With(zktest.OpCreate))
}

// Promise: a client has a bounded number of Joins under way, however many of its goroutines
// want to join, and a renewal does not wait until the others have joined.
func TestARenewalDoesNotWaitForACrowd(t *testing.T) {
	t.Parallel()
	a, via, hold := stalled(t)
	before := via.Requests(zktest.OpCreate)
	const crowd = 1000
	joined := make(chan error, crowd)
	for range crowd {
		go func() {
			_, err := a.Join(limited(t), aMutex("q"))
			joined <- err
		}()
	}
	busy.Until(t, "as many join as may", func() bool { return via.Requests(zktest.OpCreate)-before >= zklock.CrowdSlots })
	synced := via.Requests(zktest.OpSync)
	renewed := make(chan error, 1)
	go func() {
		_, err := a.Renew(limited(t), nil)
		renewed <- err
	}()
	busy.Until(t, "the renewal is sent", func() bool { return via.Requests(zktest.OpSync) > synced })
	if n := via.Requests(zktest.OpCreate) - before; n != zklock.CrowdSlots {
		t.Errorf("%d Joins are under way, %d may be", n, zklock.CrowdSlots)
	}
	hold.Release()
	noError(t, <-renewed)
	for range crowd {
		noError(t, <-joined)
	}
}

// Promise: who gives up before its Join is sent costs the server nothing, and cannot join later.
func TestWhoGivesUpBeforeItsJoinIsSentCostsNothing(t *testing.T) {
	t.Parallel()
	a, via, hold := stalled(t)
	before := via.Requests(zktest.OpCreate)
	joined := make(chan error, zklock.CrowdSlots)
	for range zklock.CrowdSlots {
		go func() {
			_, err := a.Join(limited(t), aMutex("q"))
			joined <- err
		}()
	}
	busy.Until(t, "as many join as may", func() bool { return via.Requests(zktest.OpCreate)-before == zklock.CrowdSlots })
	var sent atomic.Int32
	via.Observe(func(f zktest.Frame) {
		if !f.Reply && strings.HasPrefix(f.Path, "/a/other") {
			sent.Add(1)
		}
	})
	atOnceAll(t, 200, func(i int) error {
		ctx, cancel := context.WithTimeout(limited(t), time.Duration(i%10+1)*10*time.Millisecond)
		defer cancel()
		r := aMutex("other")
		if _, err := a.Join(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
			return errors.Join(errors.New("a Join that waits to be sent"), err)
		}
		enough, cancel := context.WithTimeout(t.Context(), busy.Bound(30*time.Second)) // no request is answered
		defer cancel()
		if err := a.Leave(enough, driver.Ticket{ID: r.ID, Queue: r.Queue}, true); !errors.Is(err, driver.ErrGone) {
			return errors.Join(errors.New("Leave of what was not sent"), err)
		}
		r.Retry = true
		if _, err := a.Join(enough, r); !errors.Is(err, driver.ErrGone) {
			return errors.Join(errors.New("a Join after that"), err)
		}
		return nil
	})
	if n := sent.Load(); n != 0 {
		t.Errorf("200 who gave up have sent %d requests", n)
	}
	hold.Release()
	for range zklock.CrowdSlots {
		noError(t, <-joined)
	}
	if holds(t, a, aMutex("other")); sent.Load() == 0 {
		t.Error("one who stays has sent nothing either")
	}
}

// Promise: who gives up while its node is made leaves by the name that the answer tells: the
// queue is not searched for it.
func TestWhoGivesUpWhileItsNodeIsMadeIsNotSearchedFor(t *testing.T) {
	t.Parallel()
	a, via, hold := stalled(t)
	ctx, cancel := context.WithCancel(limited(t))
	joined, left := make(chan error, 1), make(chan error, 1)
	r := aMutex("q")
	go func() {
		_, err := a.Join(ctx, r)
		joined <- err
	}()
	<-hold.Held()
	cancel()
	if err := <-joined; !errors.Is(err, context.Canceled) {
		t.Fatalf("a Join that was cancelled: %v", err)
	}
	searched := via.Requests(zktest.OpMulti)
	go func() { left <- a.Leave(limited(t), driver.Ticket{ID: r.ID, Queue: r.Queue}, true) }()
	hold.Release()
	noError(t, <-left)
	if n := via.Requests(zktest.OpMulti) - searched; n != 0 {
		t.Errorf("the server was asked to catch up %d times", n)
	}
}

// Promise: those who give up while another one leaves leave together, and those whose ticket is
// gone already, are told so.
func TestThoseWhoGiveUpLeaveTogether(t *testing.T) {
	a := alone(t)
	h := a.holds(aMutex("q"))
	const crowd = 300
	tickets := make([]driver.Ticket, crowd)
	atOnceAll(t, crowd, func(i int) (err error) {
		tickets[i], err = a.Join(limited(t), aMutex("q"))
		return err
	})
	beat(t, a.Opened, append(tickets, h)...)
	requests := 0
	for lot := range slices.Chunk(tickets, 100) {
		answers, n := a.makes(a.withdrawals(lot))
		requests += n
		for i, got := range answers {
			if got.Err != nil {
				t.Errorf("Leave of ticket %d: %v", i, got.Err)
			}
		}
	}
	if requests > 4+4 { // a waiter behind each of these lots may look before it leaves
		t.Errorf("%d have left in %d requests", crowd, requests)
	}
	if left := a.nodes("q"); len(left) != 1 {
		t.Errorf("%d tickets stand", len(left))
	}
}

// withdrawals are the Leaves of waiters that give up.
func (p *party) withdrawals(all []driver.Ticket) (changes []exchange.Change) {
	row := p.Session.(interface{ Row() exchange.Session }).Row()
	for _, k := range all {
		changes = append(changes, &exchange.Leave{Ref: exchange.Ref{Queue: k.Queue, ID: k.ID}, Session: row, Clean: true, Withdraws: true})
	}
	return changes
}

// Promise: one of those who leave together may be gone: the others leave, and it is told.
func TestWhoIsGoneDoesNotKeepOthersFromLeaving(t *testing.T) {
	a := alone(t)
	tickets := []driver.Ticket{a.holds(aMutex("q"))}
	for range 5 {
		tickets = append(tickets, a.waits(aMutex("q")))
	}
	beat(t, a.Opened, tickets...)
	noError(t, a.raw.Delete("/a/q/"+nodeOf(t, a.raw, tickets[3]), -1))
	leaves := a.withdrawals(tickets[1:])
	answers, _ := a.makes(leaves)
	for i, got := range answers {
		if got.Err == exchange.ErrAlone {
			got = exchange.Alone(limited(t), a.d.(*exchange.Driver).Store(), leaves[i])
		}
		if gone := i == 2; errors.Is(got.Err, driver.ErrGone) != gone || got.Err != nil && !gone {
			t.Errorf("Leave of ticket %d: %v", i, got.Err)
		}
	}
	if left := a.nodes("q"); len(left) != 1 {
		t.Errorf("%d tickets stand", len(left))
	}
}

// Promise: a server that answers, though late, is not left: another one would be asked all of
// that again.
func TestASlowServerIsNotLeft(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	a := session(t, opened(t, via.Addr), 8*time.Second)
	holds(t, a, aMutex("q"))
	wait := watching(via, "/a/q")
	join(t, a, aMutex("q"))
	wait(2)
	errtest.Must(a.Renew(limited(t), nil))(t) // what it watches was answered: it has given its slot back
	before := via.Requests(zktest.OpCreate)
	hold := via.HoldReplies(zktest.With(zktest.OpCreate))
	var all sync.WaitGroup
	for range zklock.CrowdSlots {
		all.Go(func() { _, _ = a.Join(limited(t), aMutex("q")) })
	}
	// Fewer may if answers before were late.
	busy.Until(t, "many join", func() bool { return via.Requests(zktest.OpCreate)-before >= zklock.CrowdSlots/4 })
	answered := make(chan struct{})
	go func() { // lets about one answer pass at a time
		defer close(answered)
		for range zklock.CrowdSlots {
			<-hold.Held()
			time.Sleep(150 * time.Millisecond)
			next := via.HoldReplies(zktest.With(zktest.OpCreate))
			hold.Release()
			hold = next
		}
		hold.Release()
	}()
	_, err := a.Renew(limited(t), nil)
	noError(t, err)
	<-answered
	if n := via.Requests(zktest.OpConnect); n != 1 {
		t.Errorf("the client has connected %d times", n)
	}
	all.Wait()
}

// nodeOf is the name of the ticket's node.
func nodeOf(t *testing.T, raw *zk.Conn, k driver.Ticket) string {
	t.Helper()
	for _, n := range nodes(t, raw, "/a/"+k.Queue) {
		if strings.Contains(n, k.ID[20:]) {
			return n
		}
	}
	t.Fatalf("no node is that of the ticket %s", k.ID)
	return ""
}

// Promise: a renewal ends with its context, also while the session's demands are read and the answer to that never
// comes.
func TestARenewalDoesNotWaitForAnAnswerToOthers(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	via := zktest.NewProxy(t, s.Addr)
	a := session(t, opened(t, via.Addr), 20*time.Minute)
	b := opened(t, s.Addr)
	held := holds(t, a, aMutex("q"))
	var reads atomic.Int32
	via.SwallowReplies(func(f zktest.Frame) bool {
		return f.Op == zktest.OpGetData && strings.Contains(f.Path, "/post/") && reads.Add(1) > 0
	})
	noError(t, b.Ask(limited(t), "q", held.ID, driver.Revoke))
	busy.Until(t, "the demands are read", func() bool { return reads.Load() == 1 })
	ctx, cancel := context.WithTimeout(limited(t), time.Second)
	defer cancel()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		_, _ = a.Renew(ctx, nil)
	}()
	<-ctx.Done()
	select {
	case <-renewed:
	case <-time.After(busy.Bound(20 * time.Second)):
		t.Error("a renewal goes on after the end of its context")
	}
}
