package mysqllock_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: a Unix socket takes the place of a host, alone or beside others.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	socket := url.PathEscape(s.Path("socket"))
	for _, hosts := range []string{socket, "127.0.0.1:1," + socket} {
		_, one := session(t, "mysql://app:secret@"+hosts+"/locks?dial_timeout=1m")
		joined(t, one, mutex(hosts[:3], 1), true)
	}
	for at, says := range map[string]string{
		socket + "x/locks":          s.Path("socket") + "x",
		s.Path("socket"):            "mysql://user@%2Frun%2F",
		s.Path("socket") + "/locks": "mysql://user@%2Frun%2F",
	} {
		if d, err := open(t.Context(), "mysql://app:secret@"+at); err == nil {
			d.Close()
			t.Errorf("%s: opened", at)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%s: it is not said what is wrong: %v", at, err)
		}
	}
}

// Promise: a host that takes connections and says nothing is left for the next one.
func TestASilentHostIsLeftForTheNext(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	silent := testserver.Answer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	_, one := session(t, "mysql://app:secret@"+silent+","+s.Addr+"/locks?dial_timeout=4s")
	joined(t, one, mutex("m", 1), true)
	if _, err := open(t.Context(), "mysql://app:secret@"+silent+"/locks?dial_timeout=100ms"); err == nil || !strings.Contains(err.Error(), silent+": no answer within 100ms") {
		t.Errorf("%v; want an error that names the host", err)
	}
}

// Promise: a random number of the server that the MySQL driver misreads is no error.
func TestMisreadGreeting(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("only MariaDB has users whose greeting can be misread")
	}
	s := mysqltest.Start(t, mysqltest.Config("plugin_load_add", "auth_ed25519"))
	s.Do("CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('pw'); GRANT ALL ON locks.* TO ed@'%'")
	var left atomic.Int64 // of the random numbers that will end in 0
	misread := func(read []byte) testserver.Passed {
		if bytes.Contains(read, []byte("client_ed25519\x00")) && left.Add(-1) >= 0 {
			read[len(read)-1] = 0
		}
		return testserver.Passed{Bytes: read}
	}
	p, err := testserver.RunProxy(s.Addr, testserver.ProxyOptions{Filters: func() (requests, replies testserver.Filter) {
		return func(read []byte) testserver.Passed { return testserver.Passed{Bytes: read} }, misread
	}})
	noError(t, err)
	t.Cleanup(p.Close)
	u := "mysql://ed:pw@" + p.Addr + "/locks"
	left.Store(1)
	opened(t, u)
	if left.Load() > 0 {
		t.Error("no random number ended in 0")
	}
	left.Store(1 << 30)
	if d, err := open(t.Context(), u); err == nil {
		d.Close()
		t.Error("opened, with numbers that the server has never sent")
	}
}
