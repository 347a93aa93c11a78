package zktest_test

import (
	"encoding/binary"
	"errors"
	"github.com/interlock-go/interlock/internal/errtest"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// Operations by their numbers.
const (
	opCreate, opDelete, opExists, opGetData = 1, 2, 3, 4
	opPing, opMulti, opCreate2, opContainer = 11, 14, 15, 19
	opAuth, opClose                         = 100, -11
	persistent, ephemeral, container        = 0, 1, 4
)

// client is a session whose bytes the test sees.
type client struct {
	t *testing.T
	net.Conn
	xid      int32
	session  int64
	password string
	timeout  time.Duration // as the server has granted it
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn := errtest.Must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, Conn: conn, password: string(make([]byte, 16))}
}

// connect is a client with a session.
func connect(t *testing.T, addr string) *client {
	t.Helper()
	c := dial(t, addr)
	c.open(40 * time.Second)
	return c
}

// open opens a session, or goes on with that of c.
func (c *client) open(timeout time.Duration) {
	c.t.Helper()
	c.sendOpen(timeout)
	c.opened()
}

func (c *client) sendOpen(timeout time.Duration) {
	c.t.Helper()
	c.sendFrame(body{}.int32(0).int64(0).int32(int32(timeout.Milliseconds())).int64(c.session).string(c.password).bool(false))
}

func (c *client) opened() {
	c.t.Helper()
	r := c.frame()
	r.int32()
	c.timeout = time.Duration(r.int32()) * time.Millisecond
	c.session = r.int64()
	c.password = r.string()
}

// resume goes on with a session over another connection. It says whether the
// session is still there.
func (c *client) resume(addr string) (*client, bool) {
	c.t.Helper()
	other := dial(c.t, addr)
	other.session, other.password = c.session, c.password
	other.open(c.timeout)
	return other, other.timeout > 0
}

func (c *client) sendFrame(b body) {
	c.t.Helper()
	if _, err := c.Write(append(body{}.int32(int32(len(b))), b...)); err != nil {
		c.t.Fatal(err)
	}
}

// send sends a request and returns its number.
func (c *client) send(op int32, b body) int32 {
	c.t.Helper()
	c.xid++
	c.sendAs(c.xid, op, b)
	return c.xid
}

func (c *client) sendAs(xid, op int32, b body) {
	c.t.Helper()
	c.sendFrame(append(body{}.int32(xid).int32(op), b...))
}

func (c *client) within(d time.Duration) {
	c.t.Helper()
	errtest.None(c.t, c.SetReadDeadline(time.Now().Add(d)))
}

// frame is the next frame that comes.
func (c *client) frame() *reader {
	c.t.Helper()
	c.within(20 * time.Second)
	var size [4]byte
	_, err := io.ReadFull(c, size[:])
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if err == nil {
		_, err = io.ReadFull(c, b)
	}
	if err != nil {
		c.t.Fatal("read: ", err)
	}
	return &reader{c.t, b}
}

// reply expects the reply to a request, and returns its error and the rest.
func (c *client) reply(xid int32) (int32, *reader) {
	c.t.Helper()
	r := c.frame()
	if got := r.int32(); got != xid {
		c.t.Fatalf("got the reply %d, want %d", got, xid)
	}
	r.int64()
	return r.int32(), r
}

// do sends a request and expects no error.
func (c *client) do(op int32, b body) *reader {
	c.t.Helper()
	code, r := c.reply(c.send(op, b))
	if code != 0 {
		c.t.Fatalf("operation %d: got error %d", op, code)
	}
	return r
}

// create returns the name of the new node.
func (c *client) create(path string, flags int32) string {
	c.t.Helper()
	return c.do(opCreate, node(path, flags)).string()
}

func (c *client) exists(path string) bool {
	c.t.Helper()
	code, _ := c.reply(c.send(opExists, watched(path, false)))
	return code == 0
}

func (c *client) ping() {
	c.t.Helper()
	c.sendAs(-2, opPing, nil)
	c.reply(-2)
}

// ended expects that the connection is closed.
func (c *client) ended() {
	c.t.Helper()
	c.within(20 * time.Second)
	b := make([]byte, 100)
	if n, err := c.Read(b); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %q, %v, want the end", b[:n], err)
	}
}

// body is what is in a request.
type body []byte

func (b body) int32(n int32) body { return binary.BigEndian.AppendUint32(b, uint32(n)) }
func (b body) int64(n int64) body { return binary.BigEndian.AppendUint64(b, uint64(n)) }

func (b body) string(s string) body { return append(b.int32(int32(len(s))), s...) }

func (b body) bool(yes bool) body {
	if yes {
		return append(b, 1)
	}
	return append(b, 0)
}

// node is a new node for everybody.
func node(path string, flags int32) body {
	return body{}.string(path).string("data").int32(1).int32(31).string("world").string("anyone").int32(flags)
}

func watched(path string, watch bool) body { return body{}.string(path).bool(watch) }

// reader is what is in a reply.
type reader struct {
	t *testing.T
	b []byte
}

func (r *reader) take(n int) []byte {
	r.t.Helper()
	if n < 0 || n > len(r.b) {
		r.t.Fatalf("got %q, want %d bytes", r.b, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) int32() int32   { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) int64() int64   { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) string() string { return string(r.take(int(r.int32()))) }

// silent expects that nothing comes.
func (c *client) silent() {
	c.t.Helper()
	c.within(30 * time.Millisecond)
	b := make([]byte, 100)
	if n, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %q, %v, want silence", b[:n], err)
	}
}
