package redistest_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/redistest"
)

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %#v, want %#v", what, got, want)
	}
}

func do(t *testing.T, s *redistest.Server, args ...string) any {
	t.Helper()
	answer, err := s.Do(args...)
	s.Check(args[0], err)
	return answer
}

// Promise: a server is configured as the test says, and answers this package whatever users there are. Durable, it
// keeps what was written when it is killed, also if its disk has lost its power and left zeros behind that.
func TestServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Durable(), redistest.Users("default off"), redistest.TLS(),
		redistest.Config("maxmemory", "50mb"), redistest.Config("notify-keyspace-events", ""))
	for key, want := range map[string]string{"maxmemory": "52428800", "notify-keyspace-events": "", "save": ""} {
		expect(t, key, do(t, s, "CONFIG", "GET", key), []any{key, want})
	}
	expect(t, "SET", do(t, s, "SET", "a key", "line\r\nline"), "OK")
	s.Kill()
	log, err := os.OpenFile(s.Path("appendonlydir/appendonly.aof.1.incr.aof"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = log.Write(make([]byte, 1000))
	}
	s.Check("spoil the log", errors.Join(err, log.Close()))
	s.Restart()
	expect(t, "GET", do(t, s, "GET", "a key"), "line\r\nline")
	expect(t, "GET", do(t, s, "GET", "none"), nil)
	expect(t, "EVAL", do(t, s, "EVAL", "redis.call('SET', 'n', 1); return {1,'x',{}}", "0"), []any{int64(1), "x", []any{}})
	expect(t, "Keys", s.Keys(), []string{"a key", "n"})
	_, err = s.Do("LPUSH", "n", "x")
	var answered redistest.Error
	if !errors.As(err, &answered) || !strings.HasPrefix(string(answered), "WRONGTYPE") {
		t.Errorf("got %v, want what the server has answered", err)
	}
	bare, err := tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true})
	if err == nil { // the server looks at the client's certificate last
		if _, err = bufio.NewReader(bare).ReadByte(); err == nil {
			t.Error("a client without a certificate is let in")
		}
	}
	_, err = redistest.Run(t.TempDir(), redistest.Config("no-such-key", "1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-key") {
		t.Errorf("got %v, want the server's own complaint", err)
	}
}

// Promise: the wall clock of a server runs beside the true one, is stepped, and stays so over a restart.
func TestFakeTime(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(-time.Hour), redistest.Durable())
	look := func(ahead, left time.Duration) {
		t.Helper()
		script := fmt.Sprintf("return redis.call('TIME')[1] - %d", time.Now().Unix())
		got := time.Duration(do(t, s, "EVAL", script, "0").(int64)) * time.Second
		ttl := time.Duration(do(t, s, "PTTL", "key").(int64)) * time.Millisecond
		if (got-ahead).Abs() > 5*time.Second || (ttl-left).Abs() > 5*time.Second {
			t.Errorf("the clock is %v ahead, and %v are left, want %v and %v", got, ttl, ahead, left)
		}
	}
	do(t, s, "SET", "key", "x", "PX", "7200000")
	look(-time.Hour, 2*time.Hour)
	s.StepClock(90 * time.Minute)
	look(30*time.Minute, 30*time.Minute)
	s.StepClock(-40 * time.Minute)
	look(-10*time.Minute, 70*time.Minute)
	s.Restart()
	look(-10*time.Minute, 70*time.Minute)
}

// Promise: a cluster redirects to the owner of a key, also after it has moved. Replicas replace masters that died.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3,
		redistest.Replicas(1), redistest.TLS(), redistest.Config("cluster-node-timeout", "1000"))
	from := c.Owner("key")
	i := 0
	for c.Nodes[i] != from {
		i++
	}
	to := c.Nodes[(i+1)%3]
	do(t, from, "SET", "key", "moves")
	c.Move("key", to)
	expect(t, "GET", do(t, to, "GET", "key"), "moves")
	if _, err := from.Do("GET", "key"); err == nil || !strings.Contains(err.Error(), "MOVED") {
		t.Errorf("the old owner says %v, want a redirection", err)
	}
	expect(t, "written to a replica", do(t, to, "WAIT", "1", "5000"), int64(1))
	to.Kill()
	replica := c.Nodes[3+(i+1)%3]
	busy.Until(t, "its replica takes over", func() bool {
		value, err := replica.Do("GET", "key")
		return err == nil && value == "moves"
	})
	busy.Until(t, "all know", func() bool { return c.Owner("key") == replica })
}

// Promise: sentinels replace a dead master by its replica, which it follows when it comes back.
func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, redistest.Users("default off"), redistest.Proxied())
	old, replica := s.Master(), s.Replica()
	if old != s.Nodes[0] || replica != s.Nodes[1] {
		t.Fatal("the first node is not the master")
	}
	do(t, old, "SET", "key", "x")
	expect(t, "written to the replica", do(t, old, "WAIT", "1", "5000"), int64(1))
	old.Kill()
	if s.WaitFailover(old) != replica {
		t.Fatal("another one is the master")
	}
	expect(t, "SET", do(t, replica, "SET", "key", "y"), "OK")
	old.Restart()
	busy.Until(t, "all is well again", s.Whole)
	expect(t, "GET", do(t, old, "GET", "key"), "y")
}

// client is a connection whose bytes the test sees.
type client struct {
	t *testing.T
	*bufio.Reader
	net.Conn
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, bufio.NewReader(conn), conn}
}

// exchange sends commands at once, and expects these lines, with spaces for their ends. "END" is the end.
func (c *client) exchange(want string, commands ...string) {
	c.t.Helper()
	var text string
	for _, command := range commands {
		args := strings.Fields(command)
		text += fmt.Sprintf("*%d\r\n", len(args))
		for _, arg := range args {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
	for word := range strings.FieldsSeq(want) {
		line, err := c.ReadString('\n')
		if word == "END" && err != nil {
			continue
		}
		if got, _, _ := strings.Cut(strings.TrimSpace(line), " "); got != word {
			c.t.Fatalf("got %q, %v, want %q of %q", line, err, word, want)
		}
	}
}

// Promise: which reply belongs to which request is known beside subscriptions, which have no
// reply but as many pushes as channels, or an error. Pushes are dropped only if they are messages.
func TestProxy(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Users("default on nopass ~* &a &b &c +@all"))
	p := redistest.NewProxy(t, s.Addr)
	p.LoseReplies(1, func(m redistest.Message) bool { return len(m.Request) == 3 && m.Request[2] == "unlucky" })
	c := dial(t, p.Addr)
	c.exchange("%7", "HELLO 3")
	for line := ""; line != "*0\r\n"; { // there are no modules
		var err error
		if line, err = c.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	push := func(kind, channel, n string) string { return ">3 " + kind + " $1 " + channel + " :" + n + " " }
	c.exchange(push("$9 subscribe", "a", "1")+push("$9 subscribe", "b", "2")+"-NOPERM _ "+
		push("$11 unsubscribe", "a", "1")+"_ "+push("$9 subscribe", "c", "2"),
		"SUBSCRIBE a b", "SUBSCRIBE forbidden", "GET x", "UNSUBSCRIBE a", "GET x", "SUBSCRIBE c")
	p.DropPushes(true)
	expect(t, "receivers", do(t, s, "PUBLISH", "c", "lost"), int64(1))
	c.exchange(push("$9 subscribe", "a", "3")+"+PONG", "SUBSCRIBE a", "PING")
	p.DropPushes(false)
	do(t, s, "PUBLISH", "c", "comes")
	c.exchange(">3 $7 message $1 c $5 comes +OK END", "SET x lucky", "SET x unlucky", "SET x pipelined")
	busy.Until(t, "executed", func() bool { return do(t, s, "GET", "x") == "pipelined" })

	arrive := p.DelayRequest("INCR")
	dial(t, p.Addr).exchange("END", "INCR n")
	dial(t, p.Addr).exchange(":1", "INCR n")
	answer, err := arrive()
	if err != nil || answer != int64(2) {
		t.Errorf("a request that was delayed: %v, %v", answer, err)
	}
	busy.Until(t, "no subscriber is left", func() bool { return do(t, s, "CLIENT", "LIST", "TYPE", "pubsub") == "" })
}
