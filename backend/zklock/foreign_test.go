package zklock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: the data of a queue's node that somebody else has written stay.
func TestForeignDataOfAQueueStay(t *testing.T) {
	t.Parallel()
	s := lent(t)
	c := connected(t, s.Addr)
	for _, path := range []string{"/a", "/a/b"} {
		_, err := c.Create(path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
		noError(t, err)
	}
	for range 2 {
		noError(t, useOnce(t, "zk://"+s.Addr))
	}
	data, _, err := c.Get("/a/b")
	if err != nil || string(data) != "mine" {
		t.Errorf("the node of the queue has %q: %v", data, err)
	}
}

// Promise: what somebody else writes into the node of a queue while we hold a lock there
// stays, unless the lock was handed on a moment ago.
func TestForeignDataThatComeWhileALockIsHeld(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	a, b := session(t, opened(t, s.Addr), 20*time.Second), session(t, opened(t, s.Addr), 20*time.Second)
	n := 0
	for what, take := range map[string]func(q string) (*driver.Opened, driver.Ticket){
		"free": func(q string) (*driver.Opened, driver.Ticket) { return a, holds(t, a, aMutex(q)) },
		"free, and others wait": func(q string) (*driver.Opened, driver.Ticket) {
			k := holds(t, a, aMutex(q))
			join(t, b, aMutex(q))
			return a, k
		},
		"handed on, and held for some time": func(q string) (*driver.Opened, driver.Ticket) {
			h := holds(t, b, aMutex(q))
			k := join(t, a, aMutex(q))
			noError(t, b.Leave(limited(t), h, true))
			k, err := a.Await(limited(t), k)
			noError(t, err)
			join(t, b, aMutex(q))
			for { // its session has looked who waits
				g, err := a.Signals(limited(t))
				noError(t, err)
				if g.Demand == driver.Wanted && g.ID == k.ID {
					break
				}
			}
			return a, k
		},
		"kept for a time, and left by somebody else": func(q string) (*driver.Opened, driver.Ticket) {
			k := holds(t, a, aMutex(q))
			noError(t, a.Keep(limited(t), k, time.Hour))
			return b, k
		},
	} {
		n++
		q := fmt.Sprint("q", n)
		warm(t, a, q)
		who, k := take(q)
		_, err := raw.Set("/a/"+q, []byte("theirs"), -1)
		noError(t, err)
		noError(t, who.Leave(limited(t), k, true))
		if data, _, err := raw.Get("/a/" + q); err != nil || string(data) != "theirs" {
			t.Errorf("%s: the node of the queue has %q: %v", what, data, err)
		}
		if left := nodes(t, raw, "/a/"+q); len(left) > 1 {
			t.Errorf("%s: the ticket has not left: %q", what, left)
		}
	}
}

// Promise: to heed what others write costs hand-overs nothing: a release is one
// exchange, whoever has held before.
func TestReleasesTakeOneExchange(t *testing.T) {
	t.Parallel()
	s := lent(t)
	const clients, rounds = 4, 10
	var vias []*zktest.Proxy
	var turns []*driver.Opened
	for range clients {
		via := zktest.NewProxy(t, s.Addr)
		vias, turns = append(vias, via), append(turns, session(t, opened(t, via.Addr), 20*time.Second))
		warm(t, turns[len(turns)-1], "q")
	}
	type waiter struct {
		i   int
		k   driver.Ticket
		got chan error
	}
	line := make(chan waiter, clients)
	enter := func(i int) {
		w := waiter{i, join(t, turns[i], aMutex("q")), make(chan error, 1)}
		go func() {
			var err error
			if !w.k.Held {
				w.k, err = turns[i].Await(context.Background(), w.k)
			}
			w.got <- err
		}()
		line <- w
	}
	for i := range clients {
		enter(i)
	}
	asked := make([]atomic.Int64, clients) // about the data of the queue, and releases
	for i, via := range vias {
		via.Observe(func(f zktest.Frame) {
			if !f.Reply && (f.Op == zktest.OpMulti || f.Op == zktest.OpGetData && f.Path == "/a/q") {
				asked[i].Add(1)
			}
		})
	}
	releases := int64(0)
	for n := range clients * rounds {
		w := <-line
		noError(t, <-w.got)
		before := asked[w.i].Load()
		noError(t, turns[w.i].Leave(limited(t), w.k, true))
		releases += asked[w.i].Load() - before
		if n < clients*(rounds-1) {
			enter(w.i)
		}
	}
	if releases != clients*rounds {
		t.Errorf("%d exchanges for %d releases", releases, clients*rounds)
	}
	for i := range clients { // free, by turns
		k := holds(t, turns[i], aMutex("q"))
		before := asked[i].Load()
		noError(t, turns[i].Leave(limited(t), k, true))
		if n := asked[i].Load() - before; n != 1 {
			t.Errorf("%d exchanges for a release", n)
		}
	}
}
