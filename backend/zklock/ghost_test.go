package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/zktest"
)

const opGetEphemerals zktest.Op = 103

// Promise: a ticket that has left and that the servers bring back is removed again, and who
// waits behind it is served after a few heartbeats, while its session lives.
func TestATicketThatComesBackIsRemoved(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	s := lent(t)
	for _, whose := range []string{"own", "given"} {
		for kind, r := range map[driver.Kind]driver.Request{
			driver.Mutex:     {Units: 1, Capacity: 1},
			driver.Semaphore: {Units: 2, Capacity: 2},
			driver.Election:  {Units: 1, Capacity: 1},
			driver.Barrier:   {Units: 1, Capacity: driver.RWCapacity},
		} {
			t.Run(fmt.Sprintf("%s/%s", whose, kind), func(t *testing.T) {
				t.Parallel()
				q := whose + string(kind)
				request := func() driver.Request {
					r := r
					r.ID, r.Queue, r.Kind = someID(), q, kind
					return r
				}
				d := opened(t, s.Addr)
				if whose == "given" {
					d, _ = given(t, ttl, s.Addr)
				}
				a := session(t, d, ttl)
				k := holds(t, a, request())
				path := "/a/" + q + "/" + nodes(t, connected(t, s.Addr), "/a/"+q)[0]
				noError(t, a.Leave(limited(t), k, true))
				beat(t, a)
				time.Sleep(ttl / 2)
				appear(t, zklock.Connection(a), path)
				if kind == driver.Barrier {
					vanishes(t, connected(t, s.Addr), path, ttl)
					return
				}
				b := session(t, opened(t, s.Addr), ttl)
				w := join(t, b, request())
				if w.Held {
					t.Fatal("it does not stand behind the one that came back")
				}
				beat(t, b, w)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
				defer cancel()
				got, err := b.Await(ctx, w)
				if err != nil || !got.Held {
					t.Fatalf("behind a ticket that came back: %+v %v", got, err)
				}
				if took := time.Since(began); took > 3*ttl {
					t.Errorf("served after %v, with a TTL of %v", took, ttl)
				}
				vanishes(t, connected(t, s.Addr), path, ttl)
			})
		}
	}
}

// Promise: no ticket that stands is taken for one that has come back: neither one of
// another session on the same connection, nor one whose Join has no answer yet, nor a node of the
// program's own or of another library, nor one that another session was asked to leave.
func TestTicketsThatStandAreNotTakenForThoseThatCameBack(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	var asked atomic.Int32
	via.Observe(func(f zktest.Frame) {
		if f.Op == opGetEphemerals && f.Reply {
			asked.Add(1)
		}
	})
	d, conn := given(t, ttl, via.Addr)
	a, b := session(t, d, ttl), session(t, d, ttl)
	mine, other := holds(t, a, aMutex("mine")), holds(t, b, aMutex("other"))
	beat(t, a, mine)
	beat(t, b, other)
	if err := a.Leave(limited(t), driver.Ticket{ID: other.ID, Queue: "other"}, true); err == nil {
		t.Fatal("a ticket of another session has left")
	}
	all := zk.WorldACL(zk.PermAll)
	lock := zk.NewLock(conn, "/a/library", all)
	noError(t, lock.Lock())
	_, err := conn.Create("/a/library/mine", nil, zk.FlagEphemeral, all)
	noError(t, err)
	_, err = conn.Create("/a/library/lock-0000000077", nil, zk.FlagEphemeral, all)
	noError(t, err)
	held := via.HoldReplies(zktest.Nth(1, zktest.OpCreate)) // and all that follows
	joined := make(chan driver.Ticket, 1)
	go func() { joined <- join(t, a, aMutex("mine")) }()
	<-held.Held()
	time.Sleep(ttl / 4)
	held.Release()
	beat(t, a, <-joined)
	beat(t, a, join(t, a, aMutex("other"))) // right behind one that it was told to leave
	beat(t, b, join(t, b, aMutex("other")))
	before := nodesBelow(t, connected(t, s.Addr), "/a/mine", "/a/other", "/a/library")
	n := asked.Load()
	busy.Until(t, "each session has asked for its nodes twice", func() bool { return asked.Load() >= n+4 })
	if after := nodesBelow(t, connected(t, s.Addr), "/a/mine", "/a/other", "/a/library"); !slices.Equal(after, before) || len(after) != 8 {
		t.Errorf("%q stood, and %q are left", before, after)
	}
}

// Promise: who was told to leave a ticket of somebody else, and then waits behind it,
// does not remove it.
func TestWhoWaitsBehindATicketOfAnotherDoesNotRemoveIt(t *testing.T) {
	t.Parallel()
	s := lent(t)
	a, b := session(t, opened(t, s.Addr), 20*time.Second), session(t, opened(t, s.Addr), 20*time.Second)
	k := holds(t, b, aMutex("q"))
	if err := a.Leave(limited(t), k, true); !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Leave of a ticket of another session: %v", err)
	}
	w := join(t, a, aMutex("q"))
	r := aMutex("q")
	r.ID, r.Retry = w.ID, true
	for range 5 {
		if got := join(t, a, r); got.Held { // it looks again
			t.Fatal("two hold")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if all := nodes(t, connected(t, s.Addr), "/a/q"); len(all) != 2 {
		t.Errorf("these stand: %q", all)
	}
}

func nodesBelow(t *testing.T, c *zk.Conn, paths ...string) (all []string) {
	t.Helper()
	for _, path := range paths {
		names := nodes(t, c, path)
		slices.Sort(names)
		all = append(all, names...)
	}
	return all
}

// appear makes the node of a ticket, as servers do that bring it back.
func appear(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	all := zk.WorldACL(zk.PermAll)
	_, err := conn.Create(path, []byte("{}"), zk.FlagEphemeral, all)
	if err == zk.ErrNoNode { // the container has gone
		_, err = conn.Create(path[:len(path)-len(path[lastSlash(path):])], nil, 0, all)
		noError(t, err)
		_, err = conn.Create(path, []byte("{}"), zk.FlagEphemeral, all)
	}
	noError(t, err)
}

func lastSlash(path string) int {
	for i := len(path) - 1; ; i-- {
		if path[i] == '/' {
			return i
		}
	}
}

// vanishes waits until a node is gone.
func vanishes(t *testing.T, c *zk.Conn, path string, ttl time.Duration) {
	t.Helper()
	busy.Until(t, "the ticket that came back is removed", func() bool {
		there, _, err := c.Exists(path)
		return err == nil && !there
	})
}
