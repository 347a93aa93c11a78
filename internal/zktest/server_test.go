package zktest_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zktest"
)

// ask ends the test if the server does not answer.
func ask(t *testing.T, s *zktest.Server, word string) string {
	t.Helper()
	answer, err := s.Ask(word)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts []zktest.Option
		want []string
	}{
		"default": {nil, []string{"tickTime=200", "minSessionTimeout=400", "maxSessionTimeout=40000", "maxClientCnxns=0"}},
		"changed": {
			[]zktest.Option{zktest.Tick(100 * time.Millisecond), zktest.Config("minSessionTimeout", "1500"), zktest.Config("maxClientCnxns", "60")},
			[]string{"tickTime=100", "minSessionTimeout=1500", "maxSessionTimeout=20000", "maxClientCnxns=60"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := ask(t, zktest.Start(t, c.opts...), "conf")
			for _, want := range c.want {
				if !strings.Contains(answer, "\n"+want+"\n") {
					t.Errorf("no %q in:\n%s", want, answer)
				}
			}
		})
	}
	_, err := zktest.Run(t.TempDir(), zktest.Config("tickTime", "soon"))
	if err == nil || !strings.Contains(err.Error(), `"soon"`) {
		t.Errorf("got %v, want the server's own complaint", err)
	}
}

func TestWithoutTheBinary(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := zktest.Run(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "install ZooKeeper") {
		t.Errorf("got %v, want what to install", err)
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	if got := ask(t, s, "ruok"); got != "imok" {
		t.Errorf("got %q, want imok", got)
	}
	if got := s.Figure("znode_count"); got != 5 {
		t.Errorf("got %v nodes, want the 5 that are always there", got)
	}
	before := s.Figure("packets_received")
	ask(t, s, "ruok")
	if got := s.Figure("packets_received"); got <= before {
		t.Errorf("got %v packets after %v", got, before)
	}
	if _, err := s.Ask("stats"); err == nil {
		t.Error("a word of five letters")
	}
}

// A port stays with its server while that is down.
func TestPortIsKept(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	addr, pid := s.Addr, s.Pid()
	s.Kill()
	if s.Alive() || s.Serving() {
		t.Error("alive after it was killed")
	}
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	s.Restart()
	if s.Addr != addr || s.Pid() == pid || !s.Alive() {
		t.Error("got another address, the same process, or none")
	}
}

func TestStop(t *testing.T) {
	s, err := zktest.Run(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Pause()
	s.Stop()
	s.Stop()
	if _, err := net.Dial("tcp", s.Addr); err == nil {
		t.Error("it still listens")
	}
}

// Sessions and nodes survive a restart, unless the server has lost its data.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	c := connect(t, s.Addr)
	c.create("/a", ephemeral)
	s.Restart()
	c, ok := c.resume(s.Addr)
	if !ok || !c.exists("/a") {
		t.Fatal("the session or its node is gone")
	}
	s.RestartEmpty()
	if _, ok := c.resume(s.Addr); ok {
		t.Error("the session is still there")
	}
	if connect(t, s.Addr).exists("/a") {
		t.Error("the node is still there")
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	c := connect(t, s.Addr)
	s.Pause()
	if !s.Alive() {
		t.Error("got dead, want paused")
	}
	c.sendAs(-2, opPing, nil)
	c.silent()
	s.Resume()
	c.reply(-2)
}

// A session that nobody keeps ends, and takes its nodes along.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	short, long := dial(t, s.Addr), connect(t, s.Addr)
	short.sendOpen(time.Millisecond)
	create := short.send(opCreate, node("/a", ephemeral)) // at once: the session is short
	short.opened()
	if code, _ := short.reply(create); code != 0 {
		t.Fatalf("the node was not made: %d", code)
	}
	if short.timeout != 400*time.Millisecond || long.timeout != 40*time.Second {
		t.Errorf("got %v and %v, want 400ms and 40s", short.timeout, long.timeout)
	}
	eventually(t, "the node is gone", func() bool { return !long.exists("/a") })
}
