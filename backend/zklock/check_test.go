package zklock_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/zktest"
)

func init() { doctor.SlowTrip = time.Hour }

// examined is what Check has found.
type examined struct{ doctortest.Report }

func examine(t *testing.T, url string) examined {
	t.Helper()
	d, err := openURL(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	return examineWith(t, t.Context(), d)
}

func examineWith(t *testing.T, ctx context.Context, d driver.Driver) examined {
	t.Helper()
	return examined{doctortest.Examine(t, ctx, d)}
}

// connected makes sure that there is a connection; how fast it is depends on the
// machine.
func (e examined) connected(words ...string) {
	e.T.Helper()
	for _, f := range e.All {
		if f.Check == "connection" && strings.Contains(f.Promise, "speed") {
			e.Has("connection", driver.Warn, words...)
			return
		}
	}
	e.Has("connection", driver.OK, words...)
}

// only makes sure that nothing else is found to be wrong.
func (e examined) only(checks ...string) {
	e.T.Helper()
	for _, f := range e.All {
		slow := f.Check == "connection" && f.Status == driver.Warn
		if f.Status != driver.OK && !slow && !strings.Contains(" "+strings.Join(checks, " ")+" ", " "+f.Check+" ") {
			e.T.Errorf("%s: %s: %s", f.Check, f.Status, f.Detail)
		}
	}
}

// peek is a client of ZooKeeper, to make and see what others do.
func peek(t *testing.T, addr, user string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if user != "" {
		if err := c.AddAuth("digest", []byte(user)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestCheck(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	e := examine(t, "zk://"+s.Addr+"/locks")
	e.connected(s.Addr, "session of 10s")
	e.Has("servers", driver.OK, s.Addr+" is standalone")
	e.Has("version", driver.OK, "ZooKeeper 3.")
	e.Has("quorum", driver.Warn, "stands alone", "ensemble of three")
	e.Has("sessions", driver.OK, "from 400ms to 40s")
	e.Has("rights", driver.OK, "everybody", "/locks")
	e.Has("containers", driver.OK)
	e.Has("access", driver.Warn, "everybody", "acl=world", "zk://USER:PASSWORD@")
	e.Has("values", driver.OK, "65536")
	e.Has("clock", driver.OK)
	e.Has("tokens", driver.OK, "524288")
	e.Has("persistence", driver.Warn, "forceSync=no")
	e.only("quorum", "access", "persistence")

	c := peek(t, s.Addr, "")
	left, _, err := c.Children("/locks/_interlock")
	if err != nil || len(left) != 0 {
		t.Errorf("it has left %q behind: %v", left, err)
	}
	left, _, err = c.Children("/locks")
	if err != nil || len(left) != 1 {
		t.Errorf("it has left %q behind: %v", left, err)
	}
}

// secretive stands before a server and refuses words, as a whitelist does.
func secretive(t *testing.T, s *zktest.Server, words ...string) (addr string) {
	t.Helper()
	return testserver.Answer(t, func(c net.Conn) {
		first := make([]byte, 4)
		if _, err := io.ReadFull(c, first); err != nil {
			return
		}
		if slices.Contains(words, string(first)) {
			fmt.Fprintf(c, "%s is not executed because it is not in the whitelist.\n", first)
			return
		}
		to, err := net.Dial("tcp", s.Addr)
		if err != nil {
			return
		}
		_, _ = to.Write(first)
		var there sync.WaitGroup
		there.Go(func() { _, _ = io.Copy(to, c); _ = to.Close() })
		_, _ = io.Copy(c, to)
		c.Close()
		there.Wait()
	})
}

// What servers do not tell is tried out.
func TestCheckWithoutWords(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Config("4lw.commands.whitelist", "srvr, conf"), zktest.Durable())
	e := examine(t, "zk://"+s.Addr)
	e.Has("configuration", driver.OK, "mntr may not be asked")
	e.Has("servers", driver.OK, "standalone")
	e.only("quorum", "access")
	e = examine(t, "zk://"+secretive(t, s, "srvr", "conf"))
	e.Has("configuration", driver.OK, "srvr, conf, mntr may not be asked")
	e.Has("servers", driver.OK, "answers")
	e.Has("sessions", driver.OK, "from 400ms to 40s")
	e.Has("version", driver.OK, "3.5 or later")
	e.Has("quorum", driver.Warn, "stands alone")
	e.only("quorum", "access")
}

func TestCheckOfSettings(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Durable(), zktest.MaxBuffer(20_000), zktest.Config("maxSessionTimeout", "5000"))
	e := examine(t, "zk://"+s.Addr)
	e.Has("persistence", driver.OK, "on disk", "ms on average")
	e.Has("values", driver.Warn, "jute.maxbuffer")
	e.Has("sessions", driver.Warn, "to 5s", "maxSessionTimeout")
	e.only("quorum", "access", "values", "sessions")
	s = zktest.Start(t, zktest.Durable(), zktest.Config("minSessionTimeout", "20000"))
	e = examine(t, "zk://"+secretive(t, s, "conf"))
	e.Has("sessions", driver.Warn, "from 20s", "minSessionTimeout")
	e.only("quorum", "access", "sessions")
}

func TestCheckOfAnEnsemble(t *testing.T) {
	t.Parallel()
	ensemble := zktest.StartEnsemble(t, 3, zktest.Durable())
	all := "zk://" + strings.Join(ensemble.Addrs(), ",")
	e := examine(t, all)
	e.Has("quorum", driver.OK, "3 servers vote, of which 1 may be missing")
	e.Has("servers", driver.OK, ensemble.Leader().Addr+" is leader", ensemble.Followers()[0].Addr+" is follower")
	e.only("version", "access") // which may have faults
	examine(t, "zk://"+ensemble.Leader().Addr).Has("quorum", driver.Warn, "names one")

	gone := ensemble.Followers()[0]
	gone.Kill()
	e = examine(t, all)
	e.Has("servers", driver.Warn, gone.Addr+" cannot be reached")
	e.only("servers", "quorum", "version", "access")
	ensemble.Leader().Kill() // one that is left has no quorum
	var rest *zktest.Server
	for _, s := range ensemble.Servers {
		if s.Alive() {
			rest = s
		}
	}
	for began := time.Now(); rest.Serving(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("it goes on to serve")
		}
	}
	e = examine(t, all+"?timeout=3s")
	e.Has("connection", driver.Fail, "every lock")
	e.Has("servers", driver.Warn, rest.Addr+" does not serve: it has no quorum")
	e.only("connection", "servers", "version")
}

func TestCheckOfRights(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Durable())
	as := func(user string) string { return "zk://" + user + "@" + s.Addr }
	e := examine(t, as("alice:secret")+"/open")
	e.Has("rights", driver.OK, "the user alice", "/open")
	e.Has("access", driver.OK, "only the user")
	e.only("quorum")
	examine(t, as("alice:wrong")+"/open").Has("rights", driver.Fail, "alice", "ZooKeeper does not say so")

	root := peek(t, s.Addr, "alice:secret")
	if _, err := root.Create("/world", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	e = examine(t, as("alice:secret")+"/world")
	e.Has("access", driver.Warn, "/world", "setAcl")
	e.only("quorum", "access")
	e = examine(t, "zk://"+s.Addr+"/world")
	e.Has("rights", driver.Fail, "everybody may not", "setAcl /world/_interlock world:anyone:cdrwa")

	// Reading alone is not enough; neither is a mark that cannot be written.
	if _, err := root.Create("/read", nil, 0, zk.WorldACL(zk.PermRead)); err != nil {
		t.Fatal(err)
	}
	e = examine(t, as("alice:secret")+"/read")
	e.Has("rights", driver.Fail, "alice may not make a node in /read (create)")
}

func TestCheckOfNothing(t *testing.T) {
	e := examine(t, "zk://127.0.0.1:1")
	e.Has("connection", driver.Fail, "127.0.0.1:1")
	e.Has("servers", driver.Warn, "127.0.0.1:1 cannot be reached", "refused")
	d, err := openURL(t.Context(), "zk://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	examineWith(t, ctx, d).Has("connection", driver.Fail, "canceled")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	examineWith(t, t.Context(), d).Has("connection", driver.Fail, "closed")
}

func TestCheckWithTLS(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.TLS(), zktest.Durable())
	e := examine(t, "zks://"+s.Addr+"?"+url.Values{"ca": {s.CA}, "cert": {s.ClientCert}, "key": {s.ClientKey}}.Encode())
	e.Has("servers", driver.OK, "standalone")
	e.Has("persistence", driver.OK)
	e.only("quorum", "access")
}

func TestCheckOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	via := zktest.NewProxy(t, s.Addr)
	d, err := openURL(t.Context(), "zk://"+via.Addr+"/locks")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	examineWith(t, t.Context(), d).connected("session of 10s")
	via.Hang()
	defer via.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	e := examineWith(t, ctx, d)
	e.Has("connection", driver.Fail, "every lock")
	e.Has("servers", driver.Warn, via.Addr+" cannot be reached")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
