package zklock_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// opened is a driver of the servers at addr, whose nodes are below /a.
func opened(t *testing.T, addr string) driver.Driver {
	t.Helper()
	d := errtest.Must(openURL(t.Context(), "zk://"+addr+"/a"))(t)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func session(t *testing.T, d driver.Driver, ttl time.Duration) *driver.Opened {
	t.Helper()
	s := errtest.Must(d.Open(limited(t), driver.SessionOptions{TTL: ttl}))(t)
	return s
}

// given is a driver on a connection of the program's own.
func given(t *testing.T, ttl time.Duration, addrs ...string) (driver.Driver, *zk.Conn) {
	t.Helper()
	tap := zklock.NewTap(nil)
	conn, _, err := zk.Connect(addrs, ttl, zk.WithDialer(tap.Dial), zk.WithLogInfo(false))
	noError(t, err)
	t.Cleanup(conn.Close)
	d := errtest.Must(zklock.New(limited(t), conn, tap, zklock.Root("/a")))(t)
	t.Cleanup(func() { _ = d.Close() })
	return d, conn
}

func join(t *testing.T, s *driver.Opened, r driver.Request) driver.Ticket {
	t.Helper()
	got := errtest.Must(s.Join(limited(t), r))(t)
	return got
}

// holds is a join that must be served at once.
func holds(t *testing.T, s *driver.Opened, r driver.Request) driver.Ticket {
	t.Helper()
	got := join(t, s, r)
	if !got.Held {
		t.Fatalf("not held: %+v", got)
	}
	return got
}

// warm makes the queue's node, so that a Join is one create and no more.
func warm(t *testing.T, s *driver.Opened, queue string) {
	t.Helper()
	noError(t, s.Leave(limited(t), holds(t, s, aMutex(queue)), true))
}

// beat renews the tickets, and no others, until the test ends.
func beat(t *testing.T, s *driver.Opened, known ...driver.Ticket) {
	drivertest.Beat(t, s, s.TTL/5, known...)
}

// quit repeats a Leave until it is known what came of it.
func quit(t *testing.T, s *driver.Opened, k driver.Ticket) error {
	t.Helper()
	for ctx := limited(t); ; {
		short, cancel := context.WithTimeout(ctx, time.Second)
		err := s.Leave(short, k, true)
		cancel()
		if err == nil || errors.Is(err, driver.ErrGone) {
			return err
		}
		if ctx.Err() != nil {
			t.Fatalf("Leave: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func nodes(t testing.TB, c *zk.Conn, path string) []string {
	t.Helper()
	names, _, err := c.Children(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

// empties waits until no ticket is in the queue /a/q.
func empties(t *testing.T, c *zk.Conn) {
	t.Helper()
	var left []string
	for end := time.Now().Add(busy.Bound(time.Minute)); ; time.Sleep(10 * time.Millisecond) {
		if left = nodes(t, c, "/a/q"); len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("this stays for as long as its client lives: %q", left)
		}
	}
}

// messages is a connection that reads one message of a server at a time, after each has
// seen it: without its length, and with the xid first.
type messages struct {
	net.Conn
	each func(message []byte) []byte
	rest []byte // of the message that is read
}

func (c *messages) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		var size [4]byte
		if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
			return 0, err
		}
		message := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c.Conn, message); err != nil {
			return 0, err
		}
		message = c.each(message)
		c.rest = append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
