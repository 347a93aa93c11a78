package zklock_test

import (
	"crypto/tls"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/tlsoption/tlstest"
	"github.com/interlock-go/interlock/internal/zktest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	server := func() tlstest.Server {
		s := zktest.Start(t, zktest.TLS())
		return tlstest.Server{Addr: s.Addr, CA: s.CA, Cert: s.ClientCert, Key: s.ClientKey}
	}
	s, plain := server(), zktest.Start(t)
	tlstest.Run(t, append(tlstest.Cases(t, "zks", "zk", s, server()),
		tlstest.Case{Name: "the name of the host", URL: tlstest.URL("zks", strings.Replace(s.Addr, "127.0.0.1", "localhost", 1), s.Files()...)},
		tlstest.Case{Name: "no TLS", URL: "zk://" + s.Addr, Says: []string{s.Addr, "TLS, as with zks://"}},
		tlstest.Case{Name: "no authority named", URL: tlstest.URL("zks", s.Addr), Says: []string{s.Addr, "?ca=…"}},
		tlstest.Case{Name: "TLS where there is none", URL: tlstest.URL("zks", plain.Addr, s.Files()...), Says: []string{plain.Addr, "write zk://"}},
	), useOnce)
}

// Promise: a server that is busy may take longer for a handshake than a connection may take.
func TestAHandshakeMayTakeItsTime(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.TLS())
	via := zktest.NewProxy(t, s.Addr)
	via.Hang()
	thaw := time.AfterFunc(2*time.Second, via.Resume) // a connection may take one
	defer thaw.Stop()
	files := tlstest.Server{Addr: via.Addr, CA: s.CA, Cert: s.ClientCert, Key: s.ClientKey}.Files("timeout", "1m")
	noError(t, useOnce(t, tlstest.URL("zks", via.Addr, files...)))
}

// Promise: a server has to prove that it is what the URL calls it, each of several its own name.
// One that can prove only the address to which the name leads is told nothing.
func TestAServerProvesTheNameOfTheURL(t *testing.T) {
	t.Parallel()
	ca := errtest.Must(testserver.NewAuthority(filepath.Join(t.TempDir(), "ca.crt")))(t)
	type server struct {
		proves, called string
		told           bool
	}
	for _, c := range []struct {
		name    string // server_name
		servers []server
	}{
		{"", []server{{"127.0.0.1", "127.0.0.1", true}, {"localhost", "localhost", true}}},
		{"", []server{{"127.0.0.1", "localhost", false}}},
		{"", []server{{"localhost", "127.0.0.1", false}}},
		{"", []server{{"127.0.0.1", "localhost", false}, {"localhost", "127.0.0.1", false}, {"localhost", "localhost", true}}},
		{"example.org", []server{{"example.org", "localhost", true}, {"localhost", "localhost", false}}},
		{"127.0.0.1", []server{{"127.0.0.1", "localhost", true}, {"localhost", "localhost", false}}},
	} {
		var hosts []string
		told := make([]atomic.Bool, len(c.servers))
		for i, s := range c.servers {
			hosts = append(hosts, net.JoinHostPort(s.called, listens(t, ca, s.proves, &told[i])))
		}
		d := errtest.Must(openURL(t.Context(), "zks://user:s3cret@"+strings.Join(hosts, ",")+"?"+url.Values{"ca": {ca.Path}, "server_name": {c.name}}.Encode()))(t)
		if err := useDriver(limited(t), d); err == nil {
			t.Error("it works")
		}
		doctortest.Examine(t, t.Context(), d)
		noError(t, d.Close())
		for i, s := range c.servers {
			if told[i].Load() != s.told {
				t.Errorf("server_name=%s: one that proves %s is called %s and told something: %v", c.name, s.proves, s.called, !s.told)
			}
		}
	}
}

// listens is a server with a certificate for one name, which notes that it is told something and
// answers nothing.
func listens(t *testing.T, ca *testserver.Authority, proves string, told *atomic.Bool) (port string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "server.pem")
	noError(t, ca.Issue(file, file, proves))
	own := errtest.Must(tls.LoadX509KeyPair(file, file))(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
	noError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if n, _ := c.Read(make([]byte, 1)); n > 0 {
				told.Store(true)
			}
			_ = c.Close()
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	noError(t, err)
	return port
}
