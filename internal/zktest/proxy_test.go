package zktest_test

import (
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zktest"
)

func TestProxy(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	for name, test := range map[string]func(t *testing.T, p *zktest.Proxy, direct *client){
		"disturb": disturb, "lose replies": loseReplies, "lose by name": loseByName,
		"hold replies": holdReplies, "hold requests": holdRequests, "hold events": holdEvents, "observe": observe,
	} {
		t.Run(name, func(t *testing.T) {
			direct := connect(t, s.Addr)
			for _, path := range []string{"/a", "/b", "/c", "/d"} { // those of another test
				direct.reply(direct.send(opDelete, body{}.string(path).int32(-1)))
			}
			test(t, zktest.NewProxy(t, s.Addr), direct)
		})
	}
}

// What passes may be held up, cut or refused.
func disturb(t *testing.T, p *zktest.Proxy, direct *client) {
	c := connect(t, p.Addr)
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

	p.Cut()
	c.ended()
	again, ok := c.resume(p.Addr)
	if !ok {
		t.Fatal("the session is gone")
	}
	p.Refuse(true)
	if _, err := net.Dial("tcp", p.Addr); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want a refusal", err)
	}
	again.ping()
	p.Refuse(false)
	connect(t, p.Addr).ping()
}

// The server has done what the client gets no reply to.
func loseReplies(t *testing.T, p *zktest.Proxy, direct *client) {
	create := node("/a", persistent)
	for op, b := range map[int32]body{
		opCreate: create, opCreate2: create, opContainer: node("/a", container),
		opMulti:  append(body{}.int32(opCreate).bool(false).int32(-1), create...).int32(-1).bool(true).int32(-1), // with the end
		opDelete: body{}.string("/").int32(-1),                                                                   // fails, which is a reply as well
	} {
		c := connect(t, p.Addr)
		p.LoseReplies(1, zktest.Op(op))
		c.do(opExists, watched("/", false))
		c.send(op, b)
		c.ended()
		if op != opDelete {
			direct.do(opDelete, body{}.string("/a").int32(-1))
		}
	}
	if got := p.Lost(); got != 5 {
		t.Errorf("got %d lost, want 5", got)
	}
	p.LoseReplies(1, zktest.OpConnect)
	c := dial(t, p.Addr)
	c.sendOpen(40 * time.Second)
	c.ended()
	p.LoseReplies(1)
	p.LoseReplies(0)
	connect(t, p.Addr).create("/a", persistent)
}

func loseByName(t *testing.T, p *zktest.Proxy, direct *client) {
	c := connect(t, p.Addr)
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

func holdReplies(t *testing.T, p *zktest.Proxy, direct *client) {
	c, other := connect(t, p.Addr), connect(t, p.Addr)
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

func holdRequests(t *testing.T, p *zktest.Proxy, direct *client) {
	c := connect(t, p.Addr)
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
func holdEvents(t *testing.T, p *zktest.Proxy, direct *client) {
	c := connect(t, p.Addr)
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

func observe(t *testing.T, p *zktest.Proxy, _ *client) {
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
	c.do(opGetData, watched("/a", true))
	c.ping()
	c.send(opDelete, body{}.string("/a").int32(-1))
	c.frame()
	c.reply(c.xid)
	c.sendAs(-4, opAuth, body{}.int32(0).string("digest").string("a:b"))
	c.reply(-4)
	c.do(opClose, nil)
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
