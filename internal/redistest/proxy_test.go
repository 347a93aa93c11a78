package redistest_test

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/redistest"
)

const pong = "+PONG\r\n"

func TestHang(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	conn := dial(t, p.Addr)
	conn.expect("PING", pong)
	p.Hang()
	conn.send("INCR n")
	late := dial(t, p.Addr) // new ones hang as well
	late.send("PING")
	conn.silent()
	late.silent()
	expect(t, "n", do(t, s, "GET", "n"), nil)
	p.Resume()
	conn.read(":1\r\n")
	late.read(pong)
}

// The end of a connection is held back too, in both directions.
func TestHangHidesTheEnd(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	conn, other := dial(t, p.Addr), dial(t, p.Addr)
	conn.expect("PING", pong)
	other.expect("CLIENT SETNAME other", "+OK\r\n")
	p.Hang()
	_ = other.Close()
	expect(t, "connections killed", s.KillConnections("normal"), 2)
	conn.silent()
	p.Resume()
	conn.ended()
	_ = conn.Close()
	eventually(t, "no connections", func() bool { return p.Connections() == 0 })
}

func TestCut(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	conn := dial(t, p.Addr)
	conn.expect("PING", pong)
	p.Cut()
	conn.ended()
	conn = dial(t, p.Addr)
	conn.expect("PING", pong)
	p.Hang()
	conn.send("PING")
	p.Cut()
	conn.ended()
}

func TestRefuse(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	old := dial(t, p.Addr)
	old.expect("PING", pong)
	p.Refuse(true)
	if _, err := net.Dial("tcp", p.Addr); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want a refusal", err)
	}
	old.expect("PING", pong)
	p.Refuse(false)
	dial(t, p.Addr).expect("PING", pong)
}

func TestServerIsDown(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	s.Kill()
	dial(t, p.Addr).ended()
	s.Restart()
	dial(t, p.Addr).expect("PING", pong)
}

func TestDropPushes(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	conn := dial(t, p.Addr)
	conn.hello3()
	conn.expect("SUBSCRIBE a", ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")
	conn.expect("PING", pong)
	p.DropPushes(true)
	expect(t, "receivers", do(t, s, "PUBLISH", "a", "lost"), int64(1))
	conn.expect("PSUBSCRIBE b*", ">3\r\n$10\r\npsubscribe\r\n$2\r\nb*\r\n:2\r\n")
	do(t, s, "PUBLISH", "b1", "lost")
	conn.expect("SSUBSCRIBE c", ">3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n")
	do(t, s, "SPUBLISH", "c", "lost")
	conn.expect("PING", pong)
	p.DropPushes(false)
	do(t, s, "PUBLISH", "a", "comes")
	conn.read(">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\ncomes\r\n")
}

func TestLoseReplies(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	conn := dial(t, p.Addr)
	p.LoseReplies(1, "incr")
	conn.expect("PING", pong)
	conn.send("INCR n")
	conn.ended()
	expect(t, "n", do(t, s, "GET", "n"), "1")
	expect(t, "lost", p.Lost(), 1)
	conn = dial(t, p.Addr)
	conn.expect("INCR n", ":2\r\n")

	p.LoseRequests(1)
	conn.send("INCR n")
	conn.ended()
	expect(t, "n", do(t, s, "GET", "n"), "2")
	expect(t, "lost", p.Lost(), 2)
}

// What belongs to which request is known beside subscriptions, which have no
// reply but as many pushes as channels, or an error.
// A request that is delayed reaches the server when it arrives, and not before.
func TestDelayRequest(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	arrive := p.DelayRequest("incr")
	conn := dial(t, p.Addr)
	conn.expect("PING", pong)
	if _, err := arrive(); err == nil {
		t.Error("a request arrives that was not made")
	}
	conn.send("INCR n")
	conn.ended()
	expect(t, "n", do(t, s, "GET", "n"), nil)
	dial(t, p.Addr).expect("INCR n", ":1\r\n")
	answer, err := arrive()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "the answer", answer, int64(2))
}

func TestLoseRepliesTo(t *testing.T) {
	s := redistest.Start(t, redistest.Users("default on nopass ~* &a &b &c +@all"))
	p := redistest.NewProxy(t, s.Addr)
	conn := dial(t, p.Addr)
	conn.hello3()
	p.LoseRepliesTo(func(request []string) bool { return len(request) == 3 && request[2] == "unlucky" })
	conn.send("SUBSCRIBE a b", "SUBSCRIBE forbidden", "GET x", "UNSUBSCRIBE", "GET x",
		"SUBSCRIBE c", "SET x lucky", "SET x unlucky", "SET x pipelined")
	push := func(kind, channel, n string) string {
		return strings.ReplaceAll(">3 $"+kind+" $1 "+channel+" :"+n+" ", " ", "\r\n")
	}
	conn.read(push("9 subscribe", "a", "1") + push("9 subscribe", "b", "2"))
	conn.read("-NOPERM this user has no permissions to access one of the channels used as arguments\r\n")
	conn.read("_\r\n")
	b := make([]byte, len(push("11 unsubscribe", "a", "1"))*2)
	if _, err := io.ReadFull(conn, b); err != nil { // in any order
		t.Fatal(err)
	}
	conn.read("_\r\n" + push("9 subscribe", "c", "1") + "+OK\r\n")
	conn.ended()
	eventually(t, "executed", func() bool { return do(t, s, "GET", "x") == "pipelined" })
}

func TestTraffic(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	conn := dial(t, p.Addr)
	conn.expect("PING", pong)
	conn.expect("ECHO ping", "$4\r\nping\r\n")
	expect(t, "to the client", p.ToClients(), redistest.Traffic{Bytes: 7 + 10, Frames: 2})
	expect(t, "to the server", p.ToServer(), redistest.Traffic{Bytes: 14 + 24, Frames: 2})
}

func TestTLSPassesProxy(t *testing.T) {
	s := redistest.Start(t, redistest.TLS(), redistest.Config("tls-auth-clients", "no"))
	p := redistest.NewProxy(t, s.Addr)
	conn := dialTLS(t, p.Addr)
	conn.expect("PING", pong)
	if got := p.ToClients(); got.Bytes < 100 {
		t.Errorf("got %v, want the bytes of TLS", got)
	}
	p.Hang()
	conn.send("PING")
	conn.silent()
	p.Resume()
	conn.read(pong)
}

// A proxy that is closed twice closes nothing that was opened in between.
func TestAProxyThatIsClosedTwice(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	p.Close()
	var files []*os.File
	for range 100 { // one of them has the number that the proxy had
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p.Close()
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
