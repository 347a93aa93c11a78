package zklock_test

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: whoever only looks sees what other clients have seen before, also at a server
// that lags behind those of the others, as a leader may behind its followers.
func TestALookAtAServerThatLags(t *testing.T) {
	t.Parallel()
	s := lent(t)
	var lag laggard
	tap := zklock.NewTap(func(network, addr string, timeout time.Duration) (net.Conn, error) {
		c, err := net.DialTimeout(network, addr, timeout)
		k := &lagging{messages: messages{Conn: c}, laggard: &lag, asked: map[string]string{}}
		k.each = k.pass
		return k, err
	})
	conn, _, err := zk.Connect([]string{s.Addr}, 20*time.Second, zk.WithDialer(tap.Dial), zk.WithLogInfo(false))
	noError(t, err)
	t.Cleanup(conn.Close)
	d := errtest.Must(zklock.New(limited(t), conn, tap, zklock.Root("/a")))(t)
	t.Cleanup(func() { _ = d.Close() })

	other := opened(t, s.Addr)
	a := session(t, other, 20*time.Second)
	holds(t, a, aMutex("q"))
	cell := errtest.Must(other.Swap(limited(t), driver.Swap{ID: someID(), Name: "value", Value: []byte("old")}))(t)
	looks := map[string]func() (new bool, err error){
		"Load": func() (bool, error) {
			c, err := d.Load(limited(t), "value")
			return string(c.Value) == "new", err
		},
		"Follow": func() (bool, error) {
			q, err := d.Follow(limited(t), "q", "")
			return len(q.Members) == 2, err
		},
		"Queues": func() (bool, error) {
			for q, err := range d.Queues(limited(t), "") {
				return len(q.Members) == 2, err
			}
			return false, nil
		},
		"Cells": func() (bool, error) {
			n := 0
			for _, err := range d.Cells(limited(t), "") {
				if n++; err != nil {
					return false, err
				}
			}
			return n == 2, nil
		},
	}
	for _, look := range looks { // this is what the server lags behind with
		_, err := look()
		noError(t, err)
	}
	_, err = other.Swap(limited(t), driver.Swap{ID: someID(), Name: "value", Version: cell.Version, Value: []byte("new")})
	noError(t, err)
	_, err = other.Swap(limited(t), driver.Swap{ID: someID(), Name: "second"})
	noError(t, err)
	join(t, a, aMutex("q"))
	for name, look := range looks {
		lag.begin()
		if _, err := conn.Sync("/a"); err != nil || !lag.lags() {
			t.Fatalf("a sync is enough: %v", err)
		}
		if sees, err := look(); err != nil || !sees {
			t.Errorf("%s returns what was so before: %v", name, err)
		}
	}
}

// laggard is a server that answers what is read as it did before, until it answers a
// transaction, which comes after all earlier ones.
type laggard struct {
	mu     sync.Mutex
	on     bool
	before map[string][]byte // by request
}

func (l *laggard) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = true
}

func (l *laggard) lags() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.on
}

// Operations that read, and a transaction.
var reads = map[uint32]bool{3: true, 4: true, 8: true, 12: true}

const multi = 14

// answer is what the laggard answers: what comes after the xid and the zxid.
func (l *laggard) answer(request string, now []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	op := binary.BigEndian.Uint32([]byte(request))
	if op == multi {
		l.on = false
	}
	if !reads[op] {
		return now
	}
	if old, ok := l.before[request]; ok && l.on {
		return old
	}
	if l.before == nil {
		l.before = map[string][]byte{}
	}
	l.before[request] = append([]byte(nil), now...)
	return now
}

// lagging is a connection to it.
type lagging struct {
	messages
	*laggard
	mu    sync.Mutex
	asked map[string]string // by xid
}

func (c *lagging) Write(p []byte) (int, error) {
	if len(p) >= 12 {
		c.mu.Lock()
		c.asked[string(p[4:8])] = string(p[8:])
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *lagging) pass(message []byte) []byte {
	c.mu.Lock()
	request, ok := c.asked[string(message[:4])]
	c.mu.Unlock()
	if ok && len(message) >= 12 {
		message = append(message[:12:12], c.answer(request, message[12:])...)
	}
	return message
}
