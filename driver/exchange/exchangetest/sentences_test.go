package exchangetest_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
)

// begun is the row of a session.
func begun(t *testing.T, store exchange.Store) exchange.Session {
	t.Helper()
	s := exchange.Session{ID: exchange.NewID(), TTL: ttl}
	if _, err := store.Begin(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The network brings a Join twice.
func joinThatComesTwice(t *testing.T, w *exchangetest.World) string {
	store := w.Store()
	j := exchange.Join{Request: request(), Session: begun(t, store), Number: 1}
	for range 2 {
		if _, err := store.Join(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	q, err := store.Read(t.Context(), j.Queue, exchange.Follower{})
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Members) > 1 {
		return "a Join that came twice has made two tickets"
	}
	return ""
}

// A stray expires before the caller names it again.
func attachOfWhatHasExpired(t *testing.T, w *exchangetest.World) string {
	store := w.Store()
	s := begun(t, store)
	j := exchange.Join{Request: request(), Session: s, Number: 1}
	if _, err := store.Join(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	stray := []exchange.Ref{{Queue: j.Queue, ID: j.ID}}
	if err := store.Detach(t.Context(), s, stray); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		time.Sleep(ttl / 3)
		if _, err := store.Renew(t.Context(), s, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Attach(t.Context(), s, stray); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Look(t.Context(), s, stray); err != nil || got[0].State != exchange.Gone {
		return "a stray that had expired stands again"
	}
	return ""
}

// The fixed time of a holder ends, whose session goes on, and which listens.
func endThatIsNoEviction(t *testing.T, w *exchangetest.World) string {
	a := openRowless(t, w)
	r := request()
	r.Hold = ttl
	k, err := a.Join(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	evicted := false
	go func() {
		sig, err := a.Signals(t.Context())
		evicted = err == nil && sig.Demand == driver.Evict
	}()
	time.Sleep(ttl * 2 / 3)
	renew(t, a, k)
	time.Sleep(ttl / 2)
	if next := join(t, openRowless(t, w)); !next.Held {
		t.Fatal(next)
	}
	synctest.Wait()
	if evicted {
		return "the end of a fixed time is told as an eviction"
	}
	return ""
}

// A heartbeat is sent just before its session ends. Its first reply is held back until another client
// has looked at the queue, at a time when only the heartbeat can have extended the session.
func heartbeatAtTheEndOfItsSession(t *testing.T, w *exchangetest.World) string {
	a, b := open(t, w), open(t, w)
	k := join(t, a)
	waiter := join(t, b)
	time.Sleep(ttl * 9 / 10)
	renew(t, b, waiter)
	release := w.HoldReplies()
	kept := make(chan driver.Instant, 1)
	go func() {
		defer close(kept)
		if got, err := a.Renew(t.Context(), []driver.Ticket{k}); err == nil && got[0].State == driver.Kept {
			kept <- got[0].Proof
		}
	}()
	synctest.Wait()
	w.HoldReplies()() // only that of the heartbeat is held back from here on
	time.Sleep(ttl / 2)
	held := awaits(t, b, waiter)
	time.Sleep(ttl / 10)
	release()
	if proof, ok := <-kept; ok && a.d.Now() < proof.Add(ttl) && held.Load() {
		return "a holder is told that it is kept, and another client holds, too"
	}
	return ""
}

// gather has calls go together over a network: the first of them is under way, without a reply, until the others wait.
func gather(w *exchangetest.World, n exchangetest.Network, calls ...func()) {
	resume := w.HoldReplies()
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
		synctest.Wait()
	}
	w.Disturb(n)
	resume()
	all.Wait()
	w.Disturb(exchangetest.Network{})
}

// named asks for a mutex of another name.
func named(queue string) driver.Request {
	r := request()
	r.Queue = queue
	return r
}

// Several Joins go together, and one of them is refused.
func joinBesideOneThatIsRefused(t *testing.T, w *exchangetest.World) string {
	a, b := open(t, w), open(t, w)
	join(t, b)
	var refused, beside error
	gather(w, exchangetest.Network{},
		func() { _, _ = a.Join(t.Context(), named("first")) },
		func() {
			r := request()
			r.NoWait = true
			_, refused = a.Join(t.Context(), r)
		},
		func() { _, beside = a.Join(t.Context(), named("free")) })
	if refused != driver.ErrBusy {
		t.Error(refused)
	}
	if beside != nil {
		return "a Join of a free lock is refused, too: " + beside.Error()
	}
	return ""
}

// Several Leaves go together, and do not arrive.
func leavesWhoseReplyIsLost(t *testing.T, w *exchangetest.World) string {
	a, b := open(t, w), open(t, w)
	var all []driver.Ticket
	for _, queue := range []string{"first", "second", "third"} {
		k, err := a.Join(t.Context(), named(queue))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	said := make([]error, len(all))
	var calls []func()
	for i, k := range all {
		calls = append(calls, func() { said[i] = a.Leave(t.Context(), k, true) })
	}
	gather(w, exchangetest.Network{LoseRequest: 1}, calls...)
	for i, k := range all {
		r := named(k.Queue)
		r.NoWait = true
		if _, err := b.Join(t.Context(), r); said[i] == nil && err != nil {
			return "a Leave that did not arrive is said to be done: " + err.Error()
		}
	}
	if said[0] != nil || said[1] == nil || said[2] == nil {
		t.Errorf("the Leaves say %v", said)
	}
	return ""
}
