package zktest

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

const long = 40 * time.Second

// Promise: a server is configured as the test says. Sessions and nodes survive its death, unless it has lost its data.
func TestServer(t *testing.T) {
	t.Parallel()
	s := Start(t, Tick(100*time.Millisecond), Config("minSessionTimeout", "1500"), MaxBuffer(1000), Durable())
	answer, err := s.Ask("conf")
	s.Check("ask", err)
	for _, want := range []string{"tickTime=100", "minSessionTimeout=1500", "maxSessionTimeout=20000"} {
		if !strings.Contains(answer, "\n"+want+"\n") {
			t.Errorf("no %q in:\n%s", want, answer)
		}
	}
	if got := s.Figure("znode_count"); got != 5 {
		t.Errorf("got %v nodes, want the 5 that are always there", got)
	}
	big := connect(t, s.Addr, long)
	big.send(OpCreate, node("/"+strings.Repeat("a", 2000), persistent))
	big.ended()
	c := connect(t, s.Addr, long)
	c.create("/a", ephemeral)
	s.Kill()
	if s.Serving() {
		t.Error("it serves after it was killed")
	}
	s.Restart()
	if c = connect(t, s.Addr, long, c); c.timeout == 0 || !c.exists("/a") {
		t.Fatal("the session or its node is gone")
	}
	s.RestartEmpty()
	if connect(t, s.Addr, long, c).timeout != 0 || connect(t, s.Addr, long).exists("/a") {
		t.Error("the session or its node is still there")
	}
	if _, err = Run(t.TempDir(), Config("tickTime", "soon")); err == nil || !strings.Contains(err.Error(), `"soon"`) {
		t.Errorf("got %v, want the server's own complaint", err)
	}
}

// Promise: the next sequential node has the number that was set, up to the last one, and nothing else has changed.
func TestSetSequence(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := connect(t, s.Addr, long)
	c.create("/a", persistent)
	c.create("/a/mine", ephemeral)
	s.SetSequence("/a", 1<<31-2)
	c = connect(t, s.Addr, long, c)
	for _, want := range []string{"/a/x-2147483646", "/a/x-2147483647"} {
		if got := c.create("/a/x-", sequential); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	c.do(nodeExists, OpCreate, node("/a/x-", sequential)) // there the server itself is at its end
	if !c.exists("/a/mine") || c.exists("/a/set-sequence") {
		t.Error("more has changed than the sequence")
	}
	s.SetSequence("/", 100)
	if got := connect(t, s.Addr, long).create("/x-", sequential); got != "/x-0000000100" {
		t.Errorf("got %s", got)
	}
}

// Promise: a leader that died is replaced, and has what it has missed when it comes back. So it is with TLS, for which
// one authority is good for all servers.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := StartEnsemble(t, 3, TLS())
	to := func(s *Server, of ...*client) *client {
		conn, err := tls.Dial("tcp", s.Addr, e.Servers[0].Client)
		s.Check("dial", err)
		return wrap(t, conn, long, of...)
	}
	c := to(e.Followers()[0])
	old := e.KillLeader()
	if old.Alive() || e.Leader() == old || len(e.Followers()) != 1 || len(e.Addrs()) != 3 {
		t.Fatal("the dead server leads or follows")
	}
	if c = to(e.Leader(), c); c.timeout == 0 {
		t.Fatal("the session is gone")
	}
	c.create("/b", persistent)
	e.Restart(old)
	if e.Leader() == old || !to(old).exists("/b") {
		t.Error("it leads again, or does not know what it has missed")
	}
	if bare, err := tls.Dial("tcp", old.Addr, &tls.Config{InsecureSkipVerify: true}); err == nil {
		if _, err := bare.Read(make([]byte, 1)); err == nil {
			t.Error("a client without a certificate is let in")
		}
	}
}

// Promise: a follower that is cut off answers pings and reads, while its leader has
// ended the session. A leader that is cut off is replaced.
func TestFreeze(t *testing.T) {
	t.Parallel()
	e := StartEnsemble(t, 3, Config("syncLimit", "30"))
	follower, leader := e.Followers()[0], e.Leader()
	c, direct := connect(t, follower.Addr, 2*time.Second), connect(t, leader.Addr, long)
	c.create("/a", ephemeral)
	e.Freeze(follower)
	busy.Until(t, "the leader has ended the session", func() bool { return c.exists("/a") && !direct.exists("/a") })
	if !c.exists("/a") {
		t.Error("the follower knows about it")
	}
	c.ended()
	busy.Until(t, "the follower does not serve", func() bool { return !follower.Serving() })
	if e.Leader() != leader || len(e.Followers()) != 1 {
		t.Error("the others did not go on")
	}
	e.Thaw(follower)
	if e.Leader() != leader || len(e.Followers()) != 2 || connect(t, follower.Addr, long, c).timeout != 0 {
		t.Error("the follower has not come back, or the session is alive")
	}

	e.Freeze(leader)
	direct.send(OpCreate, node("/lost", persistent))
	connect(t, e.Leader().Addr, long).create("/b", persistent)
	direct.ended()
	e.Thaw(leader)
	if e.Leader() == leader {
		t.Error("it leads again")
	}
	if c = connect(t, leader.Addr, long); !c.exists("/b") || c.exists("/lost") {
		t.Error("it does not know what the others know")
	}
}

// Promise: a proxy tells which request a reply belongs to, and finds events, which are held back with what follows.
func TestProxy(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := NewProxy(t, s.Addr)
	var seen []Frame
	p.Observe(func(f Frame) { seen = append(seen, f) })
	c, direct := connect(t, p.Addr, long), connect(t, s.Addr, long)
	c.create("/a", persistent)
	c.do(0, OpGetData, watched("/a", 1))
	event := p.HoldReplies(With(OpEvent))
	direct.do(0, OpSetData, record{}.string("/a").string("new").int32(-1))
	if f := <-event.Held(); f.Path != "/a" || f.Xid != -1 {
		t.Errorf("got %+v", f)
	}
	c.send(OpExists, watched("/none", 0))
	c.silent()
	event.Release()
	if got := c.read().int32(); got != -1 {
		t.Errorf("got the reply %d, want the event", got)
	}
	c.reply()
	p.LoseReplies(1, func(f Frame) bool { return f.Path == "/m" })
	multi := append(append(record{}.int32(int32(OpCreate)), 0).int32(-1), node("/m", persistent)...)
	c.send(OpMulti, append(multi.int32(-1), 1).int32(-1)) // a create, and the end
	c.ended()
	if !direct.exists("/m") || p.Lost() != 1 {
		t.Error("the server has not got the request, or the reply is not lost")
	}
	p.LoseRequests(1, Nth(2, OpDelete))
	c = connect(t, p.Addr, long)
	for _, path := range []string{"/m", "/a"} {
		c.send(OpDelete, record{}.string(path).int32(-1))
	}
	c.ended()
	if !direct.exists("/a") || direct.exists("/m") {
		t.Error("a request that was lost has arrived, or one before it has not")
	}
	p.Observe(nil)
	var got []Frame
	for _, f := range seen[:9] {
		got = append(got, Frame{Reply: f.Reply, Op: f.Op, Path: f.Path, Err: f.Err})
	}
	for i, want := range []Frame{
		{Op: OpConnect}, {Op: OpConnect, Reply: true}, {Op: OpCreate, Path: "/a"}, {Op: OpCreate, Path: "/a", Reply: true},
		{Op: OpGetData, Path: "/a"}, {Op: OpGetData, Path: "/a", Reply: true}, {Op: OpExists, Path: "/none"},
		{Op: OpEvent, Path: "/a", Reply: true}, {Op: OpExists, Path: "/none", Reply: true, Err: -101},
	} {
		if got := got[i]; got.Op != want.Op || got.Path != want.Path || got.Reply != want.Reply || got.Err != want.Err {
			t.Errorf("frame %d: got %+v, want %+v", i, got, want)
		}
	}
	if n := p.Requests(OpCreate, OpDelete); n != 2 {
		t.Errorf("got %d requests, want 2", n)
	}
}

// Promise: what opens no session passes at once; what is not whole, or too short, does not end the program.
func TestConversation(t *testing.T) {
	for _, text := range []string{"ruok", "mntr\n", "\x16\x03\x01\x00\x01", "\xff\xff\xff\xff"} {
		if _, n := conversation()(false, []byte(text)); n != -1 {
			t.Errorf("%q: got the length %d", text, n)
		}
	}
	opening := record{}.int32(0)
	multi := append(record{}.int32(7).int32(int32(OpMulti)).int32(int32(OpCreate)), 0).int32(-1).string("/a")
	for size := range len(multi) + 1 {
		frame := append(record{}.int32(int32(size)), multi[:size]...)
		read := conversation()
		read(false, opening)
		for i := range len(frame) {
			if _, n := read(false, frame[:i]); n != 0 {
				t.Fatalf("%d bytes of %d: got the length %d", i, len(frame), n)
			}
		}
		f, n := read(false, append(frame, "more"...))
		if n != len(frame) || (f.Path == "/a") != (size == len(multi)) {
			t.Errorf("%d bytes: got %+v and the length %d", size, f, n)
		}
		read(true, opening)
		read(true, frame)
	}
}
