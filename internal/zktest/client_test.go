package zktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

const (
	persistent, ephemeral, sequential = 0, 1, 2
	nodeExists                        = -110
)

// client is a session whose bytes the test sees.
type client struct {
	t *testing.T
	net.Conn
	xid     int32
	session []byte // its number and its password
	timeout time.Duration
}

// connect is a client with a session: a new one, or that of another client.
func connect(t *testing.T, addr string, timeout time.Duration, of ...*client) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, conn, timeout, of...)
}

func wrap(t *testing.T, conn net.Conn, timeout time.Duration, of ...*client) *client {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	c := &client{t: t, Conn: conn, session: append(make([]byte, 8), record{}.string(string(make([]byte, 16)))...)}
	for _, other := range of {
		c.session = other.session
	}
	c.write(append(append(record{}.int32(0).int64(0).int32(int32(timeout.Milliseconds())), c.session...), 0))
	r := c.read()
	r.int32()
	c.timeout = time.Duration(r.int32()) * time.Millisecond
	c.session = bytes.Clone(r.b[:8+4+16])
	return c
}

func (c *client) write(b record) {
	c.t.Helper()
	if _, err := c.Write(append(record{}.int32(int32(len(b))), b...)); err != nil {
		c.t.Fatal(err)
	}
}

// send sends a request.
func (c *client) send(op Op, b record) {
	c.t.Helper()
	c.xid++
	c.write(append(record{}.int32(c.xid).int32(int32(op)), b...))
}

// read is the next frame that comes.
func (c *client) read() *reader {
	c.t.Helper()
	c.within(busy.Bound(20 * time.Second))
	var size [4]byte
	_, err := io.ReadFull(c, size[:])
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if err == nil {
		_, err = io.ReadFull(c, b)
	}
	if err != nil {
		c.t.Fatal("read: ", err)
	}
	return &reader{b}
}

func (c *client) within(d time.Duration) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		c.t.Fatal(err)
	}
}

// reply expects the reply to the last request.
func (c *client) reply() (code int32, r *reader) {
	c.t.Helper()
	r = c.read()
	if got := r.int32(); got != c.xid {
		c.t.Fatalf("got the reply %d", got)
	}
	r.take(8)
	return r.int32(), r
}

// do sends a request and expects this error.
func (c *client) do(want int32, op Op, b record) *reader {
	c.t.Helper()
	c.send(op, b)
	code, r := c.reply()
	if code != want {
		c.t.Fatalf("operation %d: got error %d, want %d", op, code, want)
	}
	return r
}

func node(path string, flags int32) record {
	return record{}.string(path).string("data").int32(1).int32(31).string("world").string("anyone").int32(flags)
}

func watched(path string, watch byte) record { return append(record{}.string(path), watch) }

// create returns the name of the new node.
func (c *client) create(path string, flags int32) string {
	c.t.Helper()
	return c.do(0, OpCreate, node(path, flags)).string()
}

func (c *client) exists(path string) bool {
	c.t.Helper()
	c.send(OpExists, watched(path, 0))
	code, _ := c.reply()
	return code == 0
}

// ends says whether the connection is closed, or silent.
func (c *client) ends(within time.Duration) bool {
	c.t.Helper()
	c.within(within)
	b := make([]byte, 100)
	n, err := c.Read(b)
	if err == nil {
		c.t.Fatalf("got %q", b[:n])
	}
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

func (c *client) ended() {
	c.t.Helper()
	if !c.ends(busy.Bound(20 * time.Second)) {
		c.t.Fatal("got silence, want the end")
	}
}

func (c *client) silent() {
	c.t.Helper()
	if c.ends(30 * time.Millisecond) {
		c.t.Fatal("got the end, want silence")
	}
}
