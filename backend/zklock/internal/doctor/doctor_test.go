package doctor_test

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

	_ "github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/backend/zklock/internal/peek"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/zktest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	e := doctortest.ExamineURL(t, "zk://"+s.Addr+"/locks")
	e.Has("connection", driver.OK, s.Addr, "session of 10s")
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
	e.Only("quorum", "access", "persistence")

	c := peek.Connect(t, s.Addr, "")
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
	e := doctortest.ExamineURL(t, "zk://"+s.Addr)
	e.Has("configuration", driver.OK, "mntr may not be asked")
	e.Has("servers", driver.OK, "standalone")
	e.Only("quorum", "access")
	e = doctortest.ExamineURL(t, "zk://"+secretive(t, s, "srvr", "conf"))
	e.Has("configuration", driver.OK, "srvr, conf, mntr may not be asked")
	e.Has("servers", driver.OK, "answers")
	e.Has("sessions", driver.OK, "from 400ms to 40s")
	e.Has("version", driver.OK, "3.5 or later")
	e.Has("quorum", driver.Warn, "stands alone")
	e.Only("quorum", "access")
}

func TestCheckOfSettings(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Durable(), zktest.MaxBuffer(20_000), zktest.Config("maxSessionTimeout", "5000"))
	e := doctortest.ExamineURL(t, "zk://"+s.Addr)
	e.Has("persistence", driver.OK, "on disk", "ms on average")
	e.Has("values", driver.Warn, "jute.maxbuffer")
	e.Has("sessions", driver.Warn, "to 5s", "maxSessionTimeout")
	e.Only("quorum", "access", "values", "sessions")
	s = zktest.Start(t, zktest.Durable(), zktest.Config("minSessionTimeout", "20000"))
	e = doctortest.ExamineURL(t, "zk://"+secretive(t, s, "conf"))
	e.Has("sessions", driver.Warn, "from 20s", "minSessionTimeout")
	e.Only("quorum", "access", "sessions")
}

func TestCheckOfAnEnsemble(t *testing.T) {
	t.Parallel()
	ensemble := zktest.StartEnsemble(t, 3, zktest.Durable())
	all := "zk://" + strings.Join(ensemble.Addrs(), ",")
	e := doctortest.ExamineURL(t, all)
	e.Has("quorum", driver.OK, "3 servers vote, of which 1 may be missing")
	e.Has("servers", driver.OK, ensemble.Leader().Addr+" is leader", ensemble.Followers()[0].Addr+" is follower")
	e.Only("version", "access") // which may have faults
	doctortest.ExamineURL(t, "zk://"+ensemble.Leader().Addr).Has("quorum", driver.Warn, "names one")

	gone := ensemble.Followers()[0]
	gone.Kill()
	e = doctortest.ExamineURL(t, all)
	e.Has("servers", driver.Warn, gone.Addr+" cannot be reached")
	e.Only("servers", "quorum", "version", "access")
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
	e = doctortest.ExamineURL(t, all+"?timeout=3s")
	e.Has("connection", driver.Fail, "every lock")
	e.Has("servers", driver.Warn, rest.Addr+" does not serve: it has no quorum")
	e.Only("connection", "servers", "version")
}

func TestCheckOfRights(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Durable())
	as := func(user string) string { return "zk://" + user + "@" + s.Addr }
	e := doctortest.ExamineURL(t, as("alice:secret")+"/open")
	e.Has("rights", driver.OK, "the user alice", "/open")
	e.Has("access", driver.OK, "only the user")
	e.Only("quorum")
	doctortest.ExamineURL(t, as("alice:wrong")+"/open").Has("rights", driver.Fail, "alice", "ZooKeeper does not say so")

	root := peek.Connect(t, s.Addr, "alice:secret")
	if _, err := root.Create("/world", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	e = doctortest.ExamineURL(t, as("alice:secret")+"/world")
	e.Has("access", driver.Warn, "/world", "setAcl")
	e.Only("quorum", "access")
	e = doctortest.ExamineURL(t, "zk://"+s.Addr+"/world")
	e.Has("rights", driver.Fail, "everybody may not", "setAcl /world/_interlock world:anyone:cdrwa")

	// Reading alone is not enough; neither is a mark that cannot be written.
	if _, err := root.Create("/read", nil, 0, zk.WorldACL(zk.PermRead)); err != nil {
		t.Fatal(err)
	}
	e = doctortest.ExamineURL(t, as("alice:secret")+"/read")
	e.Has("rights", driver.Fail, "alice may not make a node in /read (create)")
}

func TestCheckOfNothing(t *testing.T) {
	e := doctortest.ExamineURL(t, "zk://127.0.0.1:1")
	e.Has("connection", driver.Fail, "127.0.0.1:1")
	e.Has("servers", driver.Warn, "127.0.0.1:1 cannot be reached", "refused")
	d := doctortest.Open(t, "zk://127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	doctortest.Examine(t, ctx, d).Has("connection", driver.Fail, "canceled")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	doctortest.Examine(t, t.Context(), d).Has("connection", driver.Fail, "closed")
}

func TestCheckWithTLS(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.TLS(), zktest.Durable())
	e := doctortest.ExamineURL(t, "zks://"+s.Addr+"?"+url.Values{"ca": {s.CA}, "cert": {s.ClientCert}, "key": {s.ClientKey}}.Encode())
	e.Has("servers", driver.OK, "standalone")
	e.Has("persistence", driver.OK)
	e.Only("quorum", "access")
}

func TestCheckOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	via := zktest.NewProxy(t, s.Addr)
	d := doctortest.Open(t, "zk://"+via.Addr+"/locks")
	doctortest.Examine(t, t.Context(), d).Has("connection", driver.OK, "session of 10s")
	via.Hang()
	defer via.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	e := doctortest.Examine(t, ctx, d)
	e.Has("connection", driver.Fail, "every lock")
	e.Has("servers", driver.Warn, via.Addr+" cannot be reached")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
