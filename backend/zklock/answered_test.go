package zklock_test

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a ticket whose creation was answered stands, also if the connection ends with
// that answer.
func TestTicketStandsIfTheConnectionEndsWithItsAnswer(t *testing.T) {
	t.Parallel()
	s := lent(t)
	var cut atomic.Bool // after the answer to the next create
	tap := zklock.NewTap(func(network, addr string, timeout time.Duration) (net.Conn, error) {
		c, err := net.DialTimeout(network, addr, timeout)
		k := &cutter{messages: messages{Conn: c}, cut: &cut}
		k.each = k.pass
		return k, err
	})
	conn, _, err := zk.Connect([]string{s.Addr}, 20*time.Second, zk.WithDialer(tap.Dial), zk.WithLogInfo(false))
	noError(t, err)
	t.Cleanup(conn.Close)
	d, err := zklock.New(limited(t), conn, tap, zklock.Root("/a"))
	noError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	a := session(t, d, 20*time.Second)
	warm(t, a, "q")
	for range 10 {
		r := aMutex("q")
		cut.Store(true)
		var k driver.Ticket
		busy.Until(t, "the Join is answered", func() bool {
			k, err = a.Join(limited(t), r)
			r.Retry = true
			return err == nil || driver.IsPermanent(err)
		})
		if err != nil || !k.Held || cut.Load() {
			t.Fatalf("the first in line got %+v, %v", k, err)
		}
		noError(t, quit(t, a, k))
	}
}

// cutter ends its connection with the answer to a create.
type cutter struct {
	messages
	cut *atomic.Bool
	mu  sync.Mutex
	xid string // of the create
}

func (c *cutter) Write(p []byte) (int, error) {
	const create = 1
	if len(p) > 12 && binary.BigEndian.Uint32(p[8:]) == create && c.cut.Swap(false) {
		c.mu.Lock()
		c.xid = string(p[4:8])
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *cutter) pass(message []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.xid != "" && string(message[:4]) == c.xid {
		_ = c.Conn.Close() // there is nothing more to be read
	}
	return message
}

// Promise: an Await of a ticket that is held already is not ended by the end of the
// connection over which it makes sure of that.
func TestAwaitOfAHeldTicketOutlastsItsConnection(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	for _, r := range []driver.Request{aMutex("q"), {ID: someID(), Queue: "s", Kind: driver.Semaphore, Units: 1, Capacity: 3}} {
		d := opened(t, via.Addr)
		a := session(t, d, 20*time.Second)
		k := holds(t, a, r)
		via.Hang()
		before := d.Exchanges()
		done := make(chan error)
		go func() {
			got, err := a.Await(limited(t), k)
			if err == nil && !got.Held {
				t.Errorf("%+v", got)
			}
			done <- err
		}()
		busy.Until(t, "it asks", func() bool { return d.Exchanges() > before })
		via.Cut()
		via.Resume()
		noError(t, <-done)
	}
}
