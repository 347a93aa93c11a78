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
	"github.com/interlock-go/interlock/internal/zktest"
)

// examined is what Check has found.
type examined struct {
	t   *testing.T
	all []driver.Finding
}

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
	all := d.Check(ctx)
	for _, f := range all {
		if f.Check == "" || f.Detail == "" || (f.Status == driver.OK) != (f.Promise == "" && f.Remedy == "") {
			t.Errorf("a finding with too much or too little: %+v", f)
		}
	}
	return examined{t, all}
}

func (e examined) has(check string, status driver.Status, words ...string) {
	e.t.Helper()
	for _, f := range e.all {
		if f.Check != check || f.Status != status {
			continue
		}
		all := true
		for _, w := range words {
			all = all && strings.Contains(f.Detail+"\n"+f.Promise+"\n"+f.Remedy, w)
		}
		if all {
			return
		}
	}
	e.t.Errorf("no finding %s: %s with %q among", status, check, words)
	for _, f := range e.all {
		e.t.Errorf("\t%s: %s: %s; affects: %s; remedy: %s", f.Status, f.Check, f.Detail, f.Promise, f.Remedy)
	}
}

// connected makes sure that there is a connection; how fast it is depends on the
// machine.
func (e examined) connected(words ...string) {
	e.t.Helper()
	for _, f := range e.all {
		if f.Check == "connection" && strings.Contains(f.Promise, "speed") {
			e.has("connection", driver.Warn, words...)
			return
		}
	}
	e.has("connection", driver.OK, words...)
}

// only makes sure that nothing else is found to be wrong.
func (e examined) only(checks ...string) {
	e.t.Helper()
	for _, f := range e.all {
		slow := f.Check == "connection" && f.Status == driver.Warn
		if f.Status != driver.OK && !slow && !strings.Contains(" "+strings.Join(checks, " ")+" ", " "+f.Check+" ") {
			e.t.Errorf("%s: %s: %s", f.Check, f.Status, f.Detail)
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
	s := zktest.Start(t)
	e := examine(t, "zk://"+s.Addr+"/locks")
	e.connected(s.Addr, "session of 10s")
	e.has("servers", driver.OK, s.Addr+" is standalone")
	e.has("version", driver.OK, "ZooKeeper 3.")
	e.has("quorum", driver.Warn, "stands alone", "ensemble of three")
	e.has("sessions", driver.OK, "from 400ms to 40s")
	e.has("rights", driver.OK, "everybody", "/locks")
	e.has("containers", driver.OK)
	e.has("access", driver.OK, "acl=world")
	e.has("values", driver.OK, "65536")
	e.has("clock", driver.OK)
	e.has("tokens", driver.OK, "524288")
	e.has("persistence", driver.Warn, "forceSync=no")
	e.only("quorum", "persistence")

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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
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
				defer to.Close()
				_, _ = to.Write(first)
				all.Go(func() { _, _ = io.Copy(to, c); _ = to.Close() })
				_, _ = io.Copy(c, to)
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// What servers do not tell is tried out.
func TestCheckWithoutWords(t *testing.T) {
	s := zktest.Start(t, zktest.Config("4lw.commands.whitelist", "srvr, conf"), zktest.Durable())
	e := examine(t, "zk://"+s.Addr)
	e.has("configuration", driver.OK, "mntr may not be asked")
	e.has("servers", driver.OK, "standalone")
	e.only("quorum")
	e = examine(t, "zk://"+secretive(t, s, "srvr", "conf"))
	e.has("configuration", driver.OK, "srvr, conf, mntr may not be asked")
	e.has("servers", driver.OK, "answers")
	e.has("sessions", driver.OK, "from 400ms to 40s")
	e.has("version", driver.OK, "3.5 or later")
	e.has("quorum", driver.Warn, "stands alone")
	e.only("quorum")
}

func TestCheckOfSettings(t *testing.T) {
	s := zktest.Start(t, zktest.Durable(), zktest.MaxBuffer(20_000), zktest.Config("maxSessionTimeout", "5000"))
	e := examine(t, "zk://"+s.Addr)
	e.has("persistence", driver.OK, "on disk", "ms on average")
	e.has("values", driver.Warn, "jute.maxbuffer")
	e.has("sessions", driver.Warn, "to 5s", "maxSessionTimeout")
	e.only("quorum", "values", "sessions")
	s = zktest.Start(t, zktest.Durable(), zktest.Config("minSessionTimeout", "20000"))
	e = examine(t, "zk://"+secretive(t, s, "conf"))
	e.has("sessions", driver.Warn, "from 20s", "minSessionTimeout")
	e.only("quorum", "sessions")
}

func TestCheckOfAnEnsemble(t *testing.T) {
	ensemble := zktest.StartEnsemble(t, 3, zktest.Durable())
	all := "zk://" + strings.Join(ensemble.Addrs(), ",")
	e := examine(t, all)
	e.has("quorum", driver.OK, "3 servers vote, of which 1 may be missing")
	e.has("servers", driver.OK, ensemble.Leader().Addr+" is leader", ensemble.Followers()[0].Addr+" is follower")
	e.only()
	examine(t, "zk://"+ensemble.Leader().Addr).has("quorum", driver.Warn, "names one")

	gone := ensemble.Followers()[0]
	gone.Kill()
	e = examine(t, all)
	e.has("servers", driver.Warn, gone.Addr+" cannot be reached")
	e.only("servers", "quorum")
	ensemble.Leader().Kill() // one that is left has no quorum
	var rest *zktest.Server
	for _, s := range ensemble.Servers {
		if s.Alive() {
			rest = s
		}
	}
	for began := time.Now(); rest.Serving(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("it goes on to serve")
		}
	}
	e = examine(t, all+"?timeout=3s")
	e.has("connection", driver.Fail, "every lock")
	e.has("servers", driver.Warn, rest.Addr+" does not serve: it has no quorum")
	e.only("connection", "servers")
}

func TestCheckOfRights(t *testing.T) {
	s := zktest.Start(t, zktest.Durable())
	as := func(user string) string { return "zk://" + user + "@" + s.Addr }
	e := examine(t, as("alice:secret")+"/open")
	e.has("rights", driver.OK, "the user alice", "/open")
	e.has("access", driver.OK, "only the user")
	e.only("quorum")
	examine(t, as("alice:wrong")+"/open").has("rights", driver.Fail, "alice", "ZooKeeper does not say so")

	root := peek(t, s.Addr, "alice:secret")
	if _, err := root.Create("/world", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	e = examine(t, as("alice:secret")+"/world")
	e.has("access", driver.Warn, "/world", "setAcl")
	e.only("quorum", "access")
	e = examine(t, "zk://"+s.Addr+"/world")
	e.has("rights", driver.Fail, "everybody may not", "/world/_interlock", "crdw")

	// Reading alone is not enough; neither is a mark that cannot be written.
	if _, err := root.Create("/read", nil, 0, zk.WorldACL(zk.PermRead)); err != nil {
		t.Fatal(err)
	}
	e = examine(t, as("alice:secret")+"/read")
	e.has("rights", driver.Fail, "alice may not make and remove a node in /read")
}

func TestCheckOfNothing(t *testing.T) {
	e := examine(t, "zk://127.0.0.1:1")
	e.has("connection", driver.Fail, "127.0.0.1:1")
	e.has("servers", driver.Warn, "127.0.0.1:1 cannot be reached", "refused")
	d, err := openURL(t.Context(), "zk://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	examineWith(t, ctx, d).has("connection", driver.Fail, "canceled")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	examineWith(t, t.Context(), d).has("connection", driver.Fail, "closed")
}

func TestCheckWithTLS(t *testing.T) {
	s := zktest.Start(t, zktest.TLS(), zktest.Durable())
	e := examine(t, "zks://"+s.Addr+"?"+url.Values{"ca": {s.CA}, "cert": {s.ClientCert}, "key": {s.ClientKey}}.Encode())
	e.has("servers", driver.OK, "standalone")
	e.has("persistence", driver.OK)
	e.only("quorum")
}

func TestCheckOfAServerThatHangs(t *testing.T) {
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
	e.has("connection", driver.Fail, "every lock")
	e.has("servers", driver.Warn, via.Addr+" cannot be reached")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
