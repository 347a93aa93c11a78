package zklock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a ticket with Hold that is evicted before its session has noticed the grant
// stands for a TTL, not for its whole time.
func TestEvictBeforeTheGrantIsNoticed(t *testing.T) {
	a := alone(t)
	b := a.next()
	b.Opened = session(t, b.d, 3*time.Second)
	h, r := a.holds(aMutex("q")), aMutex("q")
	r.Hold = time.Hour
	granted := b.awaits(b.waits(r))
	hold := b.via.HoldRequests(zktest.With(zktest.OpSetData)) // it reads the clock, to get its end
	a.leaves(h)
	<-hold.Held()
	zklock.Demand(b.Opened, r.ID, driver.Evict)
	hold.Release()
	beat(t, b.Opened, b.granted(granted))
	empties(t, a.raw)
}

// Promise: a demand that comes while the end of a ticket is moved reaches its holder.
func TestADemandOutlastsAnotherEnd(t *testing.T) {
	a := alone(t)
	b, r := a.next(), aMutex("q")
	r.Hold = time.Hour
	k := a.holds(r)
	end := a.stopped(zktest.With(zktest.OpMulti), func(ctx context.Context) error { return a.Keep(ctx, k, 2*time.Hour) })
	noError(t, b.d.Ask(limited(t), "q", k.ID, driver.Revoke))
	noError(t, end())
	for {
		if g := errtest.Must(a.Signals(limited(t)))(t); g.Demand == driver.Revoke && g.ID == k.ID {
			return
		}
	}
}

// Promise: drivers that share a connection are told apart: their sessions have IDs of
// their own, and demands reach the session that is meant.
func TestTwoDriversOnOneConnection(t *testing.T) {
	t.Parallel()
	s := lent(t)
	tap := zklock.NewTap(nil)
	conn, _, err := zk.Connect([]string{s.Addr}, 10*time.Second, zk.WithDialer(tap.Dial), zk.WithLogInfo(false))
	noError(t, err)
	t.Cleanup(conn.Close)
	var all []*driver.Opened
	for range 2 {
		d := errtest.Must(zklock.New(limited(t), conn, tap, zklock.Root("/a")))(t)
		defer d.Close()
		all = append(all, session(t, d, 10*time.Second))
	}
	if all[0].ID == all[1].ID {
		t.Errorf("two sessions have the ID %s", all[0].ID)
	}
	d := opened(t, s.Addr)
	queues := []string{"q", "r"}
	var held []driver.Ticket
	for i, x := range all {
		held = append(held, holds(t, x, aMutex(queues[i])))
	}
	for range 5 {
		for i, x := range all {
			noError(t, d.Ask(limited(t), queues[i], held[i].ID, driver.Revoke))
			errtest.Must(x.Renew(limited(t), held[i:i+1]))(t)
			if g, err := x.Signals(limited(t)); err != nil || g.ID != held[i].ID || g.Demand != driver.Revoke {
				t.Fatalf("session %d: %+v %v", i, g, err)
			}
		}
	}
}

// Promise: a ticket with ReportDeath is told of a holder's death however long the queue was empty:
// its node stays. So does that of a semaphore whose number was set, also when it is taken back.
func TestAQueueThatReportsDeathOutlivesItsTickets(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Containers(50*time.Millisecond))
	d := opened(t, s.Addr)
	a, b := session(t, d, 20*time.Second), session(t, d, 20*time.Second)
	r := aMutex("q")
	r.ReportDeath = true
	holds(t, a, r)
	holds(t, a, aMutex("brief"))
	noError(t, errors.Join(d.Resize(limited(t), "set", 3), d.Resize(limited(t), "set", 0)))
	noError(t, a.Close(limited(t))) // uncleanly
	raw := connected(t, s.Addr)
	busy.Until(t, "the server has removed containers", func() bool {
		there, _, err := raw.Exists("/a/brief")
		return err == nil && !there
	})
	if there, _, err := raw.Exists("/a/set"); err != nil || !there {
		t.Errorf("the node of a semaphore is gone: %v", err)
	}
	r.ID = someID()
	if k := holds(t, b, r); !k.Inherited {
		t.Errorf("the last holder died, and %+v is not told", k)
	}
}
