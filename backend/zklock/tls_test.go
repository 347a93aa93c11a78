package zklock_test

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/zktest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.TLS())
	other := zktest.Start(t, zktest.TLS())
	plain := zktest.Start(t)
	broken := filepath.Join(t.TempDir(), "broken.crt")
	if err := os.WriteFile(broken, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(scheme, addr string, options ...string) string {
		q := url.Values{}
		for i := 0; i < len(options); i += 2 {
			q.Set(options[i], options[i+1])
		}
		return scheme + "://" + addr + "?" + q.Encode()
	}
	good := []string{"ca", s.CA, "cert", s.ClientCert, "key", s.ClientKey}
	with := func(more ...string) []string { return append(good[:len(good):len(good)], more...) }
	for _, c := range []struct {
		name    string
		url     string
		invalid bool
		says    []string // nothing: it works
	}{
		{"good", at("zks", s.Addr, good...), false, nil},
		{"a name of the certificate", at("zks", s.Addr, with("server_name", "localhost")...), false, nil},
		{"the name of the host", at("zks", strings.Replace(s.Addr, "127.0.0.1", "localhost", 1), good...), false, nil},
		{"another name", at("zks", s.Addr, with("server_name", "example.org")...), false, []string{s.Addr, "certificate is valid for localhost, not example.org"}},
		{"no authority", at("zks", s.Addr, "cert", s.ClientCert, "key", s.ClientKey), false, []string{s.Addr, "unknown authority"}},
		{"another authority", at("zks", s.Addr, "ca", other.CA, "cert", s.ClientCert, "key", s.ClientKey), false, []string{s.Addr, "unknown authority"}},
		{"a certificate of another authority", at("zks", s.Addr, "ca", s.CA, "cert", other.ClientCert, "key", other.ClientKey), false, []string{s.Addr}},
		{"no certificate", at("zks", s.Addr, "ca", s.CA), false, []string{s.Addr}},
		{"no TLS", at("zk", s.Addr), false, []string{s.Addr, "TLS"}},
		{"TLS where there is none", at("zks", plain.Addr, good...), false, []string{plain.Addr, "write zk://"}},

		{"a file that is not there", at("zks", s.Addr, "ca", "/no/such/file"), true, []string{"ca:", "/no/such/file"}},
		{"a file that is none", at("zks", s.Addr, "ca", broken), true, []string{"no certificate in", broken}},
		{"a certificate without its key", at("zks", s.Addr, "ca", s.CA, "cert", s.ClientCert), true, []string{"cert and key belong together"}},
		{"the key of another", at("zks", s.Addr, "ca", s.CA, "cert", s.ClientCert, "key", other.ClientKey), true, []string{"cert:"}},
		{"options without TLS", at("zk", s.Addr, "ca", s.CA), true, []string{"unknown option ca"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.says == nil {
				if err := useOnce(t, c.url); err != nil {
					t.Error(err)
				}
				return
			}
			err := atOnce(t, func() error { return useOnce(t, c.url) }, c.says...)
			if errors.Is(err, driver.ErrInvalid) != c.invalid {
				t.Errorf("invalid: %v: %v", !c.invalid, err)
			}
		})
	}
}

// Promise: a server has to prove that it is what the URL calls it, each of several its own name.
// One that can prove only the address to which the name leads is told nothing.
func TestAServerProvesTheNameOfTheURL(t *testing.T) {
	t.Parallel()
	ca, err := testserver.NewAuthority(filepath.Join(t.TempDir(), "ca.crt"))
	noError(t, err)
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
		d, err := openURL(t.Context(), "zks://user:s3cret@"+strings.Join(hosts, ",")+"?"+url.Values{"ca": {ca.Path}, "server_name": {c.name}}.Encode())
		noError(t, err)
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
	noError(t, ca.IssueOne(file, []string{proves}, testserver.ForServer))
	own, err := tls.LoadX509KeyPair(file, file)
	noError(t, err)
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
