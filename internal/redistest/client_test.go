package redistest_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// client is a connection whose bytes the test sees.
type client struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn}
}

// send sends the commands at once.
func (c *client) send(commands ...string) {
	c.t.Helper()
	var b []byte
	for _, command := range commands {
		args := strings.Fields(command)
		b = fmt.Appendf(b, "*%d\r\n", len(args))
		for _, arg := range args {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) within(d time.Duration) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		c.t.Fatal(err)
	}
}

// read expects these bytes next.
func (c *client) read(want string) {
	c.t.Helper()
	c.within(20 * time.Second)
	b := make([]byte, len(want))
	n, err := io.ReadFull(c, b)
	if err != nil || string(b) != want {
		c.t.Fatalf("got %q, %v, want %q", b[:n], err, want)
	}
}

func (c *client) expect(command, want string) {
	c.t.Helper()
	c.send(command)
	c.read(want)
}

// silent expects that nothing comes.
func (c *client) silent() {
	c.t.Helper()
	c.within(30 * time.Millisecond)
	b := make([]byte, 100)
	if n, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %q, %v, want silence", b[:n], err)
	}
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

// hello3 makes it a connection of RESP3.
func (c *client) hello3() {
	c.t.Helper()
	c.send("HELLO 3")
	c.within(20 * time.Second)
	b := make([]byte, 1024)
	for text := ""; !strings.HasSuffix(text, "$7\r\nmodules\r\n*0\r\n"); {
		n, err := c.Read(b)
		if err != nil {
			c.t.Fatal(err)
		}
		text += string(b[:n])
	}
}

func dialTLS(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn}
}
