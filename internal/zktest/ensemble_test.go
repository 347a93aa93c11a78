package zktest_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zktest"
)

func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3)
	if got := len(e.Followers()); got != 2 || len(e.Addrs()) != 3 {
		t.Fatalf("got %d followers and %v", got, e.Addrs())
	}
	c := connect(t, e.Followers()[0].Addr)
	c.create("/a", ephemeral)

	old := e.KillLeader()
	if old.Alive() || e.Leader() == old || len(e.Followers()) != 1 {
		t.Fatal("the dead server leads or follows")
	}
	c, ok := c.resume(e.Leader().Addr)
	if !ok {
		t.Fatal("the session is gone")
	}
	c.create("/b", persistent)
	e.Restart(old)
	if e.Leader() == old || !connect(t, old.Addr).exists("/b") {
		t.Error("it leads again, or does not know what it has missed")
	}

	follower := e.Followers()[0]
	follower.RestartEmpty()
	if !connect(t, follower.Addr).exists("/b") {
		t.Error("the follower has not got the data of the others")
	}

	for _, s := range e.Servers {
		s.Kill()
	}
	e.Restart(e.Servers...)
	if !connect(t, e.Leader().Addr).exists("/b") {
		t.Error("the data is gone")
	}
}

// A follower that is cut off answers pings and reads, while its leader has
// ended the session.
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
	began := time.Now()
	eventually(t, "the leader has ended the session", func() bool {
		c.ping()
		return !direct.exists("/a")
	})
	if !c.exists("/a") {
		t.Error("the follower knows about it")
	}
	t.Log("two truths after", time.Since(began))
	c.ended()
	t.Log("the follower gives up after", time.Since(began))
	eventually(t, "the follower does not serve", func() bool { return !follower.Serving() })
	if e.Leader() != leader || len(e.Followers()) != 1 {
		t.Error("the others did not go on")
	}

	e.Thaw(follower)
	if e.Leader() != leader || len(e.Followers()) != 2 {
		t.Error("the follower has not come back")
	}
	again, ok := c.resume(follower.Addr)
	if ok {
		t.Error("the session is alive")
	}
	again.ended()
	if connect(t, follower.Addr).exists("/a") {
		t.Error("the node is there")
	}
}

func TestFreezeLeader(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3)
	old := e.Leader()
	c := connect(t, old.Addr)
	c.create("/a", persistent)
	e.Freeze(old)
	c.send(opCreate, node("/lost", persistent))
	if e.Leader() == old {
		t.Fatal("the frozen server leads")
	}
	connect(t, e.Leader().Addr).create("/b", persistent)
	c.ended()
	e.Thaw(old)
	if e.Leader() == old {
		t.Error("it leads again")
	}
	c = connect(t, old.Addr)
	if !c.exists("/a") || !c.exists("/b") || c.exists("/lost") {
		t.Error("it does not know what the others know")
	}
}

// One authority is good for all servers.
func TestEnsembleTLS(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 2, zktest.TLS(), zktest.Config("ssl.clientAuth", "none"))
	for _, s := range e.Servers {
		conn, err := tls.Dial("tcp", s.Addr, &tls.Config{RootCAs: trusted(t, e.Servers[0])})
		if err != nil {
			t.Fatal(err)
		}
		c := wrap(t, conn)
		c.open(4 * time.Second)
		c.ping()
	}
}

func TestEnsembleOfOne(t *testing.T) {
	_, err := zktest.RunEnsemble(t.TempDir(), 1)
	if err == nil || !strings.Contains(err.Error(), "at least 2") {
		t.Errorf("got %v, want a refusal", err)
	}
}
