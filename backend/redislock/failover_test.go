package redislock_test

import (
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// endpoint is a name that leads to the master, as managed servers have one: new
// connections go where it points, old ones stay.
func endpoint(t *testing.T, to *atomic.Pointer[string]) (addr string) {
	return testserver.Answer(t, func(from net.Conn) {
		server, err := net.Dial("tcp", *to.Load())
		if err != nil {
			return
		}
		var there sync.WaitGroup
		there.Go(func() { _, _ = io.Copy(server, from); server.Close(); from.Close() })
		_, _ = io.Copy(from, server)
		server.Close()
		from.Close()
		there.Wait()
	})
}

// Promise: when the name of a server leads to another master, and the old one stays as
// a replica that answers, locks go on on the new one.
func TestAMasterThatBecomesAReplicaIsLeft(t *testing.T) {
	t.Parallel()
	old, next := redistest.Start(t), redistest.Start(t)
	var to atomic.Pointer[string]
	to.Store(&old.Addr)
	c := opener(t, "redis://"+endpoint(t, &to), interlock.TTL(3*time.Second))()
	held := acquire(t, c.Mutex("held", interlock.StrictOrder()))
	release(t, acquire(t, c.Mutex("other")))

	to.Store(&next.Addr)
	do(t, old, "REPLICAOF", "127.0.0.1", strconv.Itoa(next.Port))
	release(t, acquire(t, c.Mutex("other")))
	if got := do(t, next, "EXISTS", "interlock:{other}:t"); got != int64(1) {
		t.Error("the lock was not taken on the new master")
	}
	select {
	case <-held.Done(): // the new master knows nothing of it
	case <-time.After(busy.Bound(time.Minute)):
		t.Error("a lease that a failover has lost is not lost")
	}
}

// Promise: a subscription that lives on with an old master is noticed by heartbeats, and
// news come from the new one from then on.
func TestASubscriptionToAnOldMasterIsLeft(t *testing.T) {
	t.Parallel()
	old, next := redistest.Start(t), redistest.Start(t)
	var to atomic.Pointer[string]
	to.Store(&old.Addr)
	_, a := session(t, "redis://"+endpoint(t, &to), time.Hour)
	_, b := session(t, next.URL(), time.Hour)
	front := errtest.Must(b.Join(t.Context(), exclusive("q")))(t)
	to.Store(&next.Addr)
	old.KillConnections("normal") // its subscribers stay
	var waits driver.Ticket
	r := exclusive("q")
	busy.Until(t, "the client connects anew", func() bool {
		var err error
		waits, err = a.Join(t.Context(), r)
		r.Retry = true
		return err == nil
	})
	if waits.Held {
		t.Fatal("the old master has granted it")
	}
	// It is noticed by the heartbeat after the next one, which may be late.
	subscribed := func() bool {
		return do(t, next, "PUBSUB", "NUMSUB", channel(a)).([]any)[1] == int64(1)
	}
	for began := time.Now(); !subscribed(); time.Sleep(100 * time.Millisecond) {
		if _, err := a.Renew(t.Context(), []driver.Ticket{waits}); err != nil {
			t.Log(err)
		}
		if time.Since(began) > time.Minute {
			t.Fatal("heartbeats leave a subscription with the old master as it is")
		}
	}
	noError(t, b.Leave(t.Context(), front, true))
	awaited(t, a, waits)
}
