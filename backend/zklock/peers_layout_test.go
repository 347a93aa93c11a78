package zklock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zkpeer"
)

// With layout=kazoo, a kazoo with default settings and we respect each other.
func TestKazooLayout(t *testing.T) {
	t.Parallel()
	s := lent(t)
	python := zkpeer.Kazoo(t, s.Addr)
	const kazoo = "?layout=kazoo"
	c := program(t, s.Addr, kazoo)
	t.Run("mutex", func(t *testing.T) { alternate(t, c, python, "/m") })
	t.Run("count", func(t *testing.T) {
		countTogether(t, peerAdders(python, func(th *zkpeer.Thread) *zkpeer.Lock { return th.Mutex("/count") }),
			ourAdder(c.Mutex("count")), ourAdder(program(t, s.Addr, kazoo).Mutex("count")))
	})
	t.Run("readWrite", func(t *testing.T) { readWrite(t, c, python, "/rw") })
	t.Run("election", func(t *testing.T) { elect(t, c, python.Selector("/leader", "peer")) })
	t.Run("fixed end", func(t *testing.T) { heldForATime(t, c, python.Mutex("/fixed")) })
	t.Run("downgrade", func(t *testing.T) { downgraded(t, c, python, "/down") })
}

// A ticket that has got a fixed end still keeps kazoo out.
func heldForATime(t *testing.T, c *interlock.Client, theirs *zkpeer.Lock) {
	lease := errtest.Must(c.Mutex("fixed", interlock.ExpiresAfter(20*time.Second)).Acquire(limited(t)))(t)
	isTaken(t, theirs)
	noError(t, lease.Release())
	noError(t, theirs.Acquire(limited(t)))
	noError(t, theirs.Release())
}

func downgraded(t *testing.T, c *interlock.Client, peer *zkpeer.Peer, path string) {
	lease := errtest.Must(c.RWMutex(path[1:]).Writer().Acquire(limited(t)))(t)
	isTaken(t, peer.Read(path))
	noError(t, lease.Downgrade(limited(t)))
	noError(t, peer.Read(path).Acquire(limited(t)))
	isTaken(t, peer.Thread("w").Write(path))
	noError(t, peer.Read(path).Release())
	noError(t, lease.Release())
}

// With election=latch, LeaderLatches of Curator are candidates as ours are.
func TestLatchLayout(t *testing.T) {
	t.Parallel()
	s := lent(t)
	java := zkpeer.Curator(t, s.Addr)
	c, ctx := program(t, s.Addr, "?election=latch"), limited(t)
	e := c.Election("leader")
	lease := errtest.Must(e.Campaign(ctx, "ours"))(t)
	for term := range 8 {
		theirs := java.Latch("/leader", fmt.Sprint("theirs ", term))
		noError(t, theirs.Start())
		watchQueue(t, c, "leader", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
		if leads, err := theirs.Leads(); leads || err != nil {
			t.Fatalf("two lead (%v)", err)
		}
		noError(t, lease.Release())
		noError(t, theirs.Await(ctx))
		q := watchQueue(t, c, "leader", func(q interlock.Queue) bool { return len(q.Holders) == 1 })
		if !strings.HasPrefix(q.Holders[0].Owner, "theirs") {
			t.Errorf("%+v", q)
		}
		got := inBackground(func() (*interlock.Lease, error) { return e.Campaign(ctx, "ours") })
		watchQueue(t, c, "leader", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
		all := errtest.Must(theirs.Participants())(t)
		if len(all) != 2 || !all[0].Leader || all[1].Leader {
			t.Errorf("%+v", all)
		}
		select {
		case <-got:
			t.Fatal("two lead")
		default:
		}
		noError(t, theirs.Close())
		lease = leased(t, got)
	}
	noError(t, lease.Release())
}

func TestLayoutsThatThereAreNot(t *testing.T) {
	for _, options := range []string{"layout=netflix", "election=coin", "semaphore=curators", "barrier=true"} {
		_, err := interlock.Open(limited(t), "zk://127.0.0.1:1/?"+options)
		name, _, _ := strings.Cut(options, "=")
		if err == nil || !strings.Contains(err.Error(), "option "+name+" is not one of: ") {
			t.Errorf("%s: %v", options, err)
		}
	}
}

// Promise: kazoo does not listen, so that asking it to give its lock up is an error that says
// so, and its node keeps its data: who it is. What was asked for by Curator's word has no owner
// of that name.
func TestKazooCannotBeAsked(t *testing.T) {
	t.Parallel()
	s := lent(t)
	python := zkpeer.Kazoo(t, s.Addr)
	for name, layout := range map[string]string{"m": "", "k": "?layout=kazoo"} {
		c := program(t, s.Addr, layout)
		theirs := python.Mutex("/" + name)
		noError(t, theirs.Acquire(limited(t)))
		m := watchQueue(t, c, name, func(q interlock.Queue) bool { return len(q.Holders) == 1 }).Holders[0]
		if m.Owner == "" || !m.Foreign {
			t.Fatalf("a lock of kazoo is shown as %+v", m)
		}
		for what, err := range map[string]error{
			"Revoke": c.Admin().Revoke(limited(t), name, m.ID), "Evict": c.Admin().Evict(limited(t), name, m.ID, false),
		} {
			if !errors.Is(err, interlock.ErrInvalid) || !strings.Contains(err.Error(), "kazoo") {
				t.Errorf("%s: %v", what, err)
			}
		}
		q := watchQueue(t, c, name, func(interlock.Queue) bool { return true })
		if len(q.Holders) != 1 || q.Holders[0].Owner != m.Owner {
			t.Errorf("it was %+v, and is shown as %+v", m, q)
		}
		noError(t, theirs.Release())
	}

	java := zkpeer.Curator(t, s.Addr)
	c := program(t, s.Addr, "")
	noError(t, java.Mutex("/c").Acquire(limited(t)))
	m := watchQueue(t, c, "c", func(q interlock.Queue) bool { return len(q.Holders) == 1 }).Holders[0]
	noError(t, c.Admin().Evict(limited(t), "c", m.ID, false))
	q := watchQueue(t, c, "c", func(interlock.Queue) bool { return true })
	if len(q.Holders) != 1 || q.Holders[0].Owner != "" || !q.Holders[0].Foreign {
		t.Errorf("a lock of Curator that was asked for is shown as %+v", q)
	}
}
