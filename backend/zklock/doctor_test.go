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

	"github.com/interlock-go/interlock/backend/zklock/internal/peek"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/zktest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	e := doctortest.ExamineURL(t, "zk://"+s.Addr+"/locks")
	for _, check := range []string{"connection", "servers", "version", "exchanges", "listing", "values", "clock", "tokens"} {
		e.Has(check, driver.OK)
	}
	e.Has("quorum", driver.Warn, "stands alone", "ensemble of three")
	e.Has("access", driver.Warn, "everybody", "zk://USER:PASSWORD@")
	e.Has("persistence", driver.Warn, "forceSync=no")
	e.Only("quorum", "access", "persistence")

	c := peek.Connect(t, s.Addr, "")
	left, _, err := c.Children("/locks/doctor")
	if err != nil && err != zk.ErrNoNode {
		t.Fatal(err)
	}
	for _, name := range left { // queues are containers, which the server removes
		if _, stat, err := c.Exists("/locks/doctor/" + name + "/value"); err == nil && stat.NumChildren > 0 {
			t.Errorf("it has left tickets in %s behind", name)
		}
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
	e.Has("persistence", driver.OK, "mntr may not be asked")
	e.Has("servers", driver.OK)
	e.Only("quorum", "access")
	e = doctortest.ExamineURL(t, "zk://"+secretive(t, s, "srvr", "conf"))
	e.Has("servers", driver.OK)
	e.Has("TTL", driver.OK)
	e.Has("quorum", driver.Warn, "stands alone")
	e.Only("quorum", "access")
}

func TestCheckOfSettings(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Durable(), zktest.MaxBuffer(20_000), zktest.Config("maxSessionTimeout", "5000"))
	e := doctortest.ExamineURL(t, "zk://"+s.Addr)
	e.Has("persistence", driver.OK, "on disk")
	e.Has("values", driver.Warn, "jute.maxbuffer")
	e.Has("TTL", driver.Warn, "5s was granted", "maxSessionTimeout")
	e.Only("quorum", "access", "values", "TTL")
	s = zktest.Start(t, zktest.Durable(), zktest.Config("minSessionTimeout", "20000"))
	e = doctortest.ExamineURL(t, "zk://"+s.Addr)
	e.Has("TTL", driver.Warn, "20s was granted", "minSessionTimeout")
	e.Only("quorum", "access", "TTL")
}

func TestCheckOfAnEnsemble(t *testing.T) {
	t.Parallel()
	ensemble := zktest.StartEnsemble(t, 3, zktest.Durable())
	all := "zk://" + strings.Join(ensemble.Addrs(), ",")
	e := doctortest.ExamineURL(t, all)
	e.Has("quorum", driver.OK)
	e.Has("servers", driver.OK)
	e.Has("version", driver.Warn, "-4712")
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
	busy.Until(t, "it serves no more", func() bool { return !rest.Serving() })
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
	e.Has("exchanges", driver.OK)
	e.Only("quorum", "access") // everybody may make /open
	doctortest.ExamineURL(t, as("alice:wrong")+"/open").Has("exchanges", driver.Fail, "alice", "ZooKeeper does not say so")

	root := peek.Connect(t, s.Addr, "alice:secret")
	errtest.Must(root.Create("/world", nil, 0, zk.WorldACL(zk.PermAll)))(t)
	e = doctortest.ExamineURL(t, as("alice:secret")+"/world")
	e.Has("access", driver.Warn, "/world", "setAcl")
	e.Only("quorum", "access")
	e = doctortest.ExamineURL(t, "zk://"+s.Addr+"/world")
	e.Has("exchanges", driver.Fail, "setAcl -R /world world:anyone:cdrwa")

	// Reading alone is not enough.
	errtest.Must(root.Create("/read", nil, 0, zk.WorldACL(zk.PermRead)))(t)
	e = doctortest.ExamineURL(t, as("alice:secret")+"/read")
	e.Has("exchanges", driver.Fail, "cdrw is needed on /read")
}

func TestCheckOfNothing(t *testing.T) {
	e := doctortest.ExamineURL(t, "zk://127.0.0.1:1")
	e.Has("connection", driver.Fail, "127.0.0.1:1")
	e.Has("servers", driver.Warn, "127.0.0.1:1 cannot be reached", "refused")
	d := doctortest.Open(t, "zk://127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	doctortest.Examine(t, ctx, d).Has("connection", driver.Fail, "canceled")
	noError(t, d.Close())
	doctortest.Examine(t, t.Context(), d).Has("connection", driver.Fail, "closed")
}

func TestCheckWithTLS(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.TLS(), zktest.Durable())
	e := doctortest.ExamineURL(t, "zks://"+s.Addr+"?"+url.Values{"ca": {s.CA}, "cert": {s.ClientCert}, "key": {s.ClientKey}}.Encode())
	e.Has("servers", driver.OK)
	e.Has("persistence", driver.OK)
	e.Only("quorum", "access")
}

func TestCheckOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	via := zktest.NewProxy(t, s.Addr)
	d := doctortest.Open(t, "zk://"+via.Addr+"/locks")
	doctortest.Examine(t, t.Context(), d).Has("connection", driver.OK)
	defer via.Resume()
	for _, when := range []string{"while a lock is tried", "all the time"} {
		if when == "all the time" {
			via.Hang()
		} else {
			via.Observe(func(f zktest.Frame) {
				if !f.Reply && f.Op == zktest.OpCreate && strings.Contains(f.Path, "/doctor/") {
					via.Hang()
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		e := doctortest.Examine(t, ctx, d)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: it took %v", when, took)
		}
		if when == "all the time" {
			e.Has("connection", driver.Fail, "every lock")
			e.Has("servers", driver.Warn, via.Addr+" cannot be reached")
		}
	}
}
