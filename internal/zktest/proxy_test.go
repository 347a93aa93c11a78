package zktest_test

import (
	"crypto/tls"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zktest"
)

// startWithProxy is a server that has nothing yet of what tests make, and a proxy.
func startWithProxy(t *testing.T) (*zktest.Server, *zktest.Proxy) {
	t.Helper()
	s := shared(t)
	c := connect(t, s.Addr)
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		c.reply(c.send(opDelete, body{}.string(path).int32(-1)))
	}
	return s, zktest.NewProxy(t, s.Addr)
}

func TestHang(t *testing.T) {
	s, p := startWithProxy(t)
	c, direct := connect(t, p.Addr), connect(t, s.Addr)
	p.Hang()
	c.send(opCreate, node("/a", persistent))
	late := dial(t, p.Addr) // new ones hang as well
	late.sendOpen(40 * time.Second)
	c.silent()
	late.silent()
	if direct.exists("/a") {
		t.Error("the request has passed")
	}
	p.Resume()
	c.reply(c.xid)
	late.opened()
}

func TestCut(t *testing.T) {
	_, p := startWithProxy(t)
	c := connect(t, p.Addr)
	p.Cut()
	c.ended()
	again, ok := c.resume(p.Addr)
	if !ok {
		t.Fatal("the session is gone")
	}
	again.ping()
}

func TestRefuse(t *testing.T) {
	_, p := startWithProxy(t)
	c := connect(t, p.Addr)
	p.Refuse(true)
	if _, err := net.Dial("tcp", p.Addr); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want a refusal", err)
	}
	c.ping()
	p.Refuse(false)
	connect(t, p.Addr).ping()
}

// The server has done what the client gets no reply to.
func TestLoseReplies(t *testing.T) {
	s, p := startWithProxy(t)
	direct := connect(t, s.Addr)
	for _, op := range []int32{opCreate, opCreate2, opCreateContainer, opMulti, opDelete} {
		c := connect(t, p.Addr)
		p.LoseReplies(1, zktest.Op(op))
		c.do(0, opExists, watched("/", false))
		b := node("/a", persistent)
		switch op {
		case opCreateContainer:
			b = node("/a", container)
		case opMulti: // a create, and the end
			b = append(body{}.int32(opCreate).bool(false).int32(-1), b...).int32(-1).bool(true).int32(-1)
		case opDelete:
			b = body{}.string("/").int32(-1) // fails, which is a reply as well
		}
		c.send(op, b)
		c.ended()
		if op != opDelete {
			direct.do(0, opDelete, body{}.string("/a").int32(-1))
		}
	}
	if got := p.Lost(); got != 5 {
		t.Errorf("got %d lost, want 5", got)
	}
	p.LoseReplies(1)
	p.LoseReplies(0)
	connect(t, p.Addr).create("/a", persistent)
}

func TestLoseRequests(t *testing.T) {
	s, p := startWithProxy(t)
	c := connect(t, p.Addr)
	p.LoseRequests(2, zktest.OpCreate, zktest.OpDelete)
	c.ping()
	c.send(opCreate, node("/a", persistent))
	c.ended()
	c = connect(t, p.Addr)
	c.send(opDelete, body{}.string("/zookeeper").int32(-1))
	c.ended()
	if connect(t, s.Addr).exists("/a") {
		t.Error("the server has got the request")
	}
	connect(t, p.Addr).create("/a", persistent)
	if got := p.Lost(); got != 2 {
		t.Errorf("got %d lost, want 2", got)
	}
}

// The reply that opens a session can be lost as well.
func TestLoseOpening(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	p := zktest.NewProxy(t, s.Addr)
	p.LoseReplies(1, zktest.OpConnect)
	c := dial(t, p.Addr)
	c.sendOpen(40 * time.Second)
	c.ended()
	if got := s.Figure("global_sessions"); got != 1 {
		t.Errorf("got %v sessions, want the one that nobody knows", got)
	}
}

func TestLoseByName(t *testing.T) {
	s, p := startWithProxy(t)
	c, direct := connect(t, p.Addr), connect(t, s.Addr)
	p.LoseReplyTo(func(f zktest.Frame) bool { return f.Path == "/b" && f.Op == zktest.OpCreate })
	c.create("/a", persistent)
	c.exists("/b")
	c.send(opCreate, node("/b", persistent))
	c.ended()
	if !direct.exists("/b") {
		t.Error("the server has not got the request")
	}

	p.LoseRequest(zktest.Nth(2, zktest.OpCreate))
	c = connect(t, p.Addr)
	c.create("/c", persistent)
	c.send(opCreate, node("/d", persistent))
	c.ended()
	if direct.exists("/d") {
		t.Error("the server has got the request")
	}
}

func TestHoldReplies(t *testing.T) {
	s, p := startWithProxy(t)
	c, other, direct := connect(t, p.Addr), connect(t, p.Addr), connect(t, s.Addr)
	h := p.HoldReplies(zktest.With(zktest.OpCreate))
	first := c.send(opCreate, node("/a", persistent))
	if f := <-h.Held(); f.Path != "/a" || f.Err != 0 || f.Zxid == 0 || f.Op != zktest.OpCreate {
		t.Errorf("got %+v", f)
	}
	if !direct.exists("/a") {
		t.Error("the server has not got the request")
	}
	second := c.send(opExists, watched("/a", false))
	c.silent()
	other.ping()
	h.Release()
	c.reply(first)
	c.reply(second)
	c.create("/b", persistent)
	h.Release()
}

func TestHoldRequests(t *testing.T) {
	s, p := startWithProxy(t)
	c, direct := connect(t, p.Addr), connect(t, s.Addr)
	creates, deletes := p.HoldRequests(zktest.With(zktest.OpCreate)), p.HoldRequests(zktest.With(zktest.OpDelete))
	create := c.send(opCreate, node("/a", persistent))
	c.send(opDelete, body{}.string("/a").int32(-1))
	<-creates.Held()
	if direct.exists("/a") {
		t.Error("the server has got the request")
	}
	creates.Release()
	c.reply(create)
	<-deletes.Held()
	if !direct.exists("/a") {
		t.Error("the server has not got the request")
	}
	p.Cut() // whatever is held
	c.ended()
	deletes.Release()
	if !direct.exists("/a") {
		t.Error("the server has got a request of a connection that was cut")
	}
}

// An event that is held back holds back the replies behind it.
func TestHoldEvents(t *testing.T) {
	s, p := startWithProxy(t)
	c, direct := connect(t, p.Addr), connect(t, s.Addr)
	c.send(opExists, watched("/a", true))
	c.reply(c.xid)
	h := p.HoldReplies(zktest.With(zktest.OpEvent))
	direct.create("/a", persistent)
	if f := <-h.Held(); f.Path != "/a" {
		t.Errorf("got %+v", f)
	}
	ask := c.send(opExists, watched("/a", false))
	c.silent()
	h.Release()
	if got := c.frame().int32(); got != -1 {
		t.Errorf("got the reply %d, want the event", got)
	}
	c.reply(ask)
}

func TestObserve(t *testing.T) {
	_, p := startWithProxy(t)
	var seen []string
	bytes := map[bool]int64{}
	p.Observe(func(f zktest.Frame) {
		what := f.Op.String() + " " + f.Path
		if f.Reply {
			what += "!"
		}
		seen = append(seen, what)
		bytes[f.Reply] += int64(f.Bytes)
	})
	c := connect(t, p.Addr)
	c.create("/a", persistent)
	c.do(0, opGetData, watched("/a", true))
	c.ping()
	c.send(opDelete, body{}.string("/a").int32(-1))
	c.frame()
	c.reply(c.xid)
	c.sendAs(-4, opAuth, body{}.int32(0).string("digest").string("a:b"))
	c.reply(-4)
	c.do(0, opClose, nil)
	p.Observe(nil)
	want := strings.Split("connect ,connect !,create /a,create /a!,getData /a,getData /a!,ping ,ping !,"+
		"delete /a,event /a!,delete /a!,auth ,auth !,close ,close !", ",")
	if !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	if got, want := p.ToServer(), (zktest.Traffic{Bytes: bytes[false], Frames: 7}); !reflect.DeepEqual(got, want) {
		t.Errorf("to the server: got %+v, want %+v", got, want)
	}
	if got, want := p.ToClients(), (zktest.Traffic{Bytes: bytes[true], Frames: 8}); !reflect.DeepEqual(got, want) {
		t.Errorf("to the client: got %+v, want %+v", got, want)
	}
	if got := p.Requests(zktest.OpCreate, zktest.OpDelete, zktest.OpSync); got != 2 {
		t.Errorf("got %d requests, want 2", got)
	}
}

// Words of four letters and TLS pass as they come.
func TestRawPasses(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.TLS(), zktest.PlainToo(), zktest.Config("ssl.clientAuth", "none"))
	p := zktest.NewProxy(t, s.Addr)
	word := dial(t, p.Addr)
	if _, err := word.Write([]byte("ruok")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(word, b); err != nil || string(b) != "imok" {
		t.Errorf("got %q, %v, want imok", b, err)
	}
	conn, err := tls.Dial("tcp", p.Addr, &tls.Config{RootCAs: trusted(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	c := wrap(t, conn)
	c.open(4 * time.Second)
	c.ping()
	if got := p.ToServer(); got.Frames != 0 || got.Bytes < 100 {
		t.Errorf("got %+v, want only the bytes of TLS", got)
	}
}
