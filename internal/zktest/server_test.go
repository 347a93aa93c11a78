package zktest_test

import (
	"net"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// A server keeps its port while it is down, and its sessions and nodes, unless it has lost its data. One that is
// paused says nothing.
func TestServer(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	addr, pid := s.Addr, s.Pid()
	c := connect(t, addr)
	c.create("/a", ephemeral)
	s.Kill()
	if s.Alive() || s.Serving() {
		t.Error("alive after it was killed")
	}
	for range 200 {
		l := errtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
	}
	s.Restart()
	if s.Addr != addr || s.Pid() == pid || !s.Alive() {
		t.Error("got another address, the same process, or none")
	}
	c, ok := c.resume(addr)
	if !ok || !c.exists("/a") {
		t.Fatal("the session or its node is gone")
	}

	s.Pause()
	c.sendAs(-2, opPing, nil)
	if c.silent(); !s.Alive() {
		t.Error("got dead, want paused")
	}
	s.Resume()
	c.reply(-2)

	s.RestartEmpty()
	if _, ok := c.resume(addr); ok || connect(t, addr).exists("/a") {
		t.Error("the session or its node is still there")
	}
}

func TestServersThatDoNotStart(t *testing.T) {
	_, err := zktest.Run(t.TempDir(), zktest.Config("tickTime", "soon"))
	errtest.Says(t, err, `"soon"`) // the server's own complaint
	t.Setenv("PATH", t.TempDir())
	_, err = zktest.Run(t.TempDir())
	errtest.Says(t, err, "install ZooKeeper")
}

// A follower that is cut off answers pings and reads, while its leader has ended the session.
func TestFreeze(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3, zktest.Config("syncLimit", "30"))
	follower, leader := e.Followers()[0], e.Leader()
	c, direct := dial(t, follower.Addr), connect(t, leader.Addr)
	c.open(2 * time.Second)
	c.create("/a", ephemeral)
	for range 50 { // longer than the session, which the pings keep
		c.ping()
		time.Sleep(50 * time.Millisecond)
	}
	if !direct.exists("/a") {
		t.Fatal("a session that was kept is gone")
	}
	e.Freeze(follower)
	eventually(t, "the leader has ended the session", func() bool {
		c.ping()
		return !direct.exists("/a")
	})
	if !c.exists("/a") {
		t.Error("the follower knows about it")
	}
	c.ended()
	if e.Leader() != leader || len(e.Followers()) != 1 {
		t.Error("the others did not go on")
	}
	e.Thaw(follower)
	if e.Leader() != leader || len(e.Followers()) != 2 || connect(t, follower.Addr).exists("/a") {
		t.Error("the follower has not come back, or does not know what it has missed")
	}

	old := e.KillLeader()
	if old.Alive() || e.Leader() == old || len(e.Followers()) != 1 {
		t.Fatal("the dead server leads or follows")
	}
	connect(t, e.Leader().Addr).create("/b", persistent)
	e.Restart(old)
	if e.Leader() == old || !connect(t, old.Addr).exists("/b") {
		t.Error("it leads again, or does not know what it has missed")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("never: ", what)
		}
	}
}
