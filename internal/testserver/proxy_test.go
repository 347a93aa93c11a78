package testserver_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/testserver"
)

func startProxy(t *testing.T) (*testserver.Server, *testserver.Proxy) {
	s := start(t)
	return s, testserver.NewProxy(t, s.Addr)
}

// Promise: Hang holds back both directions, also of new connections, and the end of connections; Late only the replies.
func TestHang(t *testing.T) {
	s, p := startProxy(t)
	for name, hold := range map[string]func(){"Hang": p.Hang, "Late": p.Late} {
		c, ending := dial(t, p.Addr), dial(t, p.Addr)
		c.echoes("a")
		ending.echoes("b")
		sent := p.ToServer().Bytes
		hold()
		late := dial(t, p.Addr)
		c.send("c")
		late.send("d")
		ending.send("bye")
		for _, c := range []*client{c, late, ending} {
			c.silent()
		}
		if now := p.ToServer().Bytes; (now > sent) != (name == "Late") {
			t.Errorf("%s: %d bytes have reached the server, after %d", name, now, sent)
		}
		p.Resume()
		c.reads("c")
		late.reads("d")
		ending.reads("the end")
		p.Cut()
		busy.Until(t, "no connections", func() bool { return p.Connections() == 0 })
	}
	dial(t, s.Addr).echoes("a")
}

// Promise: Cut ends connections, also ones that hang; Silence has one lead nowhere, without an end, until it is cut;
// Refuse concerns new ones; a server that is down is one that ends them.
func TestCut(t *testing.T) {
	s, p := startProxy(t)
	c := dial(t, p.Addr)
	c.echoes("a")
	p.Cut()
	c.reads("the end")
	c = dial(t, p.Addr)
	c.echoes("a")
	p.Hang()
	c.send("b")
	p.Cut()
	c.reads("the end")
	p.Resume()

	first, second := dial(t, p.Addr), dial(t, p.Addr)
	first.echoes("a")
	second.echoes("a")
	p.Silence(0)
	first.send("b")
	second.echoes("b")
	first.silent()
	p.Refuse(true)
	refused(t, p.Addr)
	second.echoes("c")
	p.Cut()
	first.reads("the end")
	p.Refuse(false)
	dial(t, p.Addr).echoes("a")

	s.Kill()
	dial(t, p.Addr).reads("the end")
	s.Restart()
	dial(t, p.Addr).echoes("a")
}

// message is a line; what begins with a bang is something else.
type message struct {
	reply bool
	line  string
}

// lines starts an interceptor that drops lines with "drop".
func lines(t *testing.T, target string) *testserver.Interceptor[message] {
	t.Helper()
	return testserver.Intercept(t, target, func() func(bool, []byte) (message, int) {
		raw := false
		return func(reply bool, b []byte) (message, int) {
			if raw = raw || b[0] == '!'; raw {
				return message{}, -1
			}
			end := bytes.IndexByte(b, '\n')
			return message{reply, string(b[:max(0, end)])}, end + 1
		}
	}, func(_ bool, m message) bool { return strings.Contains(m.line, "drop") })
}

func is(line string) func(message) bool { return func(m message) bool { return m.line == line } }

// Promise: a reply is lost after the server has got the request, a request before; others are not.
func TestLose(t *testing.T) {
	s := start(t)
	p := lines(t, s.Addr)
	var toServer []string
	p.Observe(func(m message) {
		if !m.reply {
			toServer = append(toServer, m.line)
		}
	})
	p.LoseReplies(1, is("b"))
	c := dial(t, p.Addr)
	c.echoes("a")
	c.send("b")
	c.reads("the end")
	c = dial(t, p.Addr)
	c.echoes("b")
	p.LoseRequests(2, is("c"))
	c.send("c", "d")
	c.reads("the end")
	dial(t, p.Addr).echoes("d")
	p.LoseRequests(0, nil)
	c = dial(t, p.Addr)
	c.echoes("c")
	c.send("drop", "e")
	c.reads("e")
	p.Observe(nil)
	if want := []string{"a", "b", "b", "d", "c", "e"}; !slices.Equal(toServer, want) || p.Lost() != 2 {
		t.Errorf("the server has got %q, and %d were lost; want %q, and 2", toServer, p.Lost(), want)
	}
}

// Promise: what is held back waits with all that follows it in the same direction of the connection, until it is
// released, or the connection ends.
func TestHold(t *testing.T) {
	s := start(t)
	p := lines(t, s.Addr)
	c, other := dial(t, p.Addr), dial(t, p.Addr)
	other.echoes("a")
	before := p.ToServer().Frames
	reply := p.HoldReplies(is("b"))
	c.send("b", "c")
	if m := <-reply.Held(); m.line != "b" || !m.reply {
		t.Errorf("got %+v", m)
	}
	c.silent()
	other.echoes("a")
	if now := p.ToServer().Frames; now != before+3 {
		t.Errorf("%d requests have arrived, want 3", now-before)
	}
	reply.Release()
	reply.Release()
	c.reads("b")
	c.reads("c")

	before = p.ToServer().Frames
	first, second := p.HoldRequests(is("d")), p.HoldRequests(is("d"))
	c.send("d")
	<-first.Held()
	first.Release()
	<-second.Held()
	p.Cut()
	c.reads("the end")
	second.Release()
	if now := p.ToServer().Frames; now != before {
		t.Error("a request of a connection that was cut has arrived")
	}
	raw := dial(t, p.Addr)
	p.LoseRequests(1, is("a"))
	raw.echoes("!x")
	raw.echoes("a")
}
