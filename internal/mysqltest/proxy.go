package mysqltest

import (
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Proxy stands between clients and a server, on a loopback port of its own.
type Proxy struct {
	*testserver.Proxy
}

// NewProxy starts a proxy for the server. It ends with the test.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	p, err := testserver.RunProxy(s.Addr, testserver.ProxyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &Proxy{p}
}

// URL is that of the server, through the proxy.
func (p *Proxy) URL() string { return urlOf(p.Addr, User, Password) }
