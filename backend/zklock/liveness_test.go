package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: who waits in a queue that was deleted and made again is told that the ticket
// is gone, after a look or two.
func TestAwaitInAQueueThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	a, b := session(t, opened(t, s.Addr), 20*time.Second), session(t, opened(t, via.Addr), 20*time.Second)
	holds(t, a, aMutex("q"))
	for range 5 { // so that the number is larger than those of the new node
		noError(t, b.Leave(limited(t), join(t, b, aMutex("q")), true))
	}
	k := join(t, b, aMutex("q"))
	raw := connected(t, s.Addr)
	var own atomic.Bool
	via.Observe(func(f zktest.Frame) {
		if f.Reply && f.Op == zktest.OpGetData && strings.Contains(f.Path, k.ID[20:]) {
			own.Store(true)
		}
	})
	got := make(chan error, 1)
	go func() { _, err := b.Await(limited(t), k); got <- err }()
	until(t, "it watches its own node, too", own.Load)
	var ops []any
	line := nodes(t, raw, "/a/q")
	slices.SortFunc(line, func(a, b string) int { return strings.Compare(b[len(b)-10:], a[len(a)-10:]) }) // the waiter hears of itself first
	for _, n := range line {
		ops = append(ops, &zk.DeleteRequest{Path: "/a/q/" + n, Version: -1})
	}
	all := zk.WorldACL(zk.PermAll)
	ops = append(ops, &zk.DeleteRequest{Path: "/a/q", Version: -1},
		&zk.CreateRequest{Path: "/a/q", Acl: all},
		&zk.CreateRequest{Path: "/a/q/lock-", Acl: all, Flags: zk.FlagSequence})
	before := via.Requests(zktest.OpGetChildren2)
	_, err := raw.Multi(ops...)
	noError(t, err)
	if err := <-got; !errors.Is(err, driver.ErrGone) {
		t.Errorf("Await of a ticket that does not stand: %v", err)
	}
	if n := via.Requests(zktest.OpGetChildren2) - before; n > 5 {
		t.Errorf("it has looked %d times", n)
	}
}

// Promise: calls end with their context, also while another call on the same ticket
// waits for a server that does not answer.
func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Tick(2*time.Second))
	via := zktest.NewProxy(t, s.Addr)
	d := opened(t, via.Addr)
	b := session(t, d, 40*time.Second)
	holds(t, session(t, opened(t, s.Addr), 20*time.Second), aMutex("q"))
	r := aMutex("q")
	k := join(t, b, r)
	via.Hang()
	defer via.Resume()
	stuck, unstick := context.WithCancel(t.Context())
	defer unstick()
	before := d.Exchanges()
	go func() { _, _ = b.Await(stuck, k) }()
	until(t, "Await has asked the server", func() bool { return d.Exchanges() > before })
	r.Retry = true
	for what, call := range map[string]func(context.Context) error{
		"Join":  func(ctx context.Context) error { _, err := b.Join(ctx, r); return err },
		"Keep":  func(ctx context.Context) error { return b.Keep(ctx, k, time.Second) },
		"Renew": func(ctx context.Context) error { _, err := b.Renew(ctx, []driver.Ticket{k}); return err },
		"Leave": func(ctx context.Context) error { return b.Leave(ctx, k, true) },
		"Raise": func(ctx context.Context) error { return d.Raise(ctx, "q", 1) },
	} {
		ends(t, what, call)
	}
}

// ends runs a call that cannot succeed, and whose context ends soon.
func ends(t *testing.T, what string, call func(context.Context) error) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := call(ctx)
	if took := time.Since(began); took > 20*time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s with a context of 200 ms took %v: %v", what, took, err)
	}
}

// Promise: a Join ends with its context while another one reads what is added to tokens.
func TestJoinEndsWhileAnotherReadsRaisedTokens(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Tick(2*time.Second))
	via := zktest.NewProxy(t, s.Addr)
	d := opened(t, via.Addr)
	b := session(t, d, 40*time.Second)
	for i := range 5 {
		warm(t, b, fmt.Sprint("short", i))
		warm(t, b, fmt.Sprint("long", i))
	}
	hold := via.HoldRequests(func(f zktest.Frame) bool { // all Joins have been sent by then
		return f.Op == zktest.OpGetData && strings.HasSuffix(f.Path, "/floors")
	})
	noError(t, opened(t, s.Addr).Raise(limited(t), "other", 1<<40))
	short, long := make(chan struct{}), make(chan struct{})
	patient, cancel := context.WithCancel(t.Context())
	for i := range 5 {
		go func() {
			_, _ = b.Join(patient, aMutex(fmt.Sprint("long", i)))
			long <- struct{}{}
		}()
		go func() {
			r := aMutex(fmt.Sprint("short", i))
			ends(t, "Join", func(ctx context.Context) error { _, err := b.Join(ctx, r); return err })
			short <- struct{}{}
		}()
	}
	<-hold.Held()
	for range 5 {
		<-short
	}
	cancel()
	for range 5 {
		<-long
	}
	hold.Release()
}

// Promise: what is added to tokens is read once for all sessions of a driver, not at
// every grant.
func TestRaisedTokensAreReadOnce(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d := opened(t, via.Addr)
	a, b := session(t, d, 10*time.Second), session(t, d, 10*time.Second)
	beat(t, a)
	beat(t, b)
	reads := make(chan string, 1000)
	via.Observe(func(f zktest.Frame) {
		if !f.Reply && f.Op == zktest.OpGetData && strings.HasSuffix(f.Path, "/floors") {
			reads <- f.Path
		}
	})
	for range 50 {
		warm(t, a, "q")
		warm(t, b, "q")
	}
	if len(reads) == 0 || len(reads) > 4 {
		t.Errorf("%d reads for 100 grants", len(reads))
	}
}

// Promise: the count of exchanges never falls, not even when a session is closed.
func TestExchangesNeverFall(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a := session(t, d, 10*time.Second)
	for range 20 {
		warm(t, a, "q")
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Close(context.Background()) }()
	for last := uint64(0); ; {
		n := d.Exchanges()
		if n < last {
			t.Fatalf("%d exchanges after %d", n, last)
		}
		last = n
		select {
		case <-done:
			return
		default:
		}
	}
}

// Promise: calls on one ticket may be made at the same time.
func TestOneTicketFromManySides(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	for range 3 {
		r := aMutex("q")
		r.Hold = 30 * time.Millisecond
		k := holds(t, a, r)
		sides := make(chan struct{})
		const each = 15
		for _, call := range []func(ctx context.Context){
			func(ctx context.Context) { _, _ = a.Renew(ctx, []driver.Ticket{k}) },
			func(ctx context.Context) { _ = a.Keep(ctx, k, 30*time.Millisecond) },
			func(ctx context.Context) { _, _ = a.Await(ctx, k) },
			func(ctx context.Context) { _ = d.Ask(ctx, "q", k.ID, driver.Evict) },
			func(ctx context.Context) { _, _ = d.Follow(ctx, "q", "") },
		} {
			go func() {
				for range each {
					ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
					call(ctx)
					cancel()
				}
				sides <- struct{}{}
			}()
		}
		for range 5 {
			<-sides
		}
		_ = quit(t, a, k)
	}
}
