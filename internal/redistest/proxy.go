package redistest

import (
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Proxy stands between clients and a server, on a loopback port of its own. It
// can disturb the connections and lose messages on purpose. Connections with
// TLS can be disturbed only: nothing can be read or counted there but bytes.
type Proxy struct {
	*testserver.Proxy

	target     string
	dropPushes atomic.Bool
	loser      atomic.Pointer[loser]
	lost       atomic.Int64
}

// Traffic is what has passed in one direction, without what was dropped. Its
// frames are top-level values: requests, or replies and pushes.
type Traffic = testserver.Traffic

// NewProxy starts a proxy for the server at the address target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := RunProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// RunProxy starts a proxy. The caller has to Close it.
func RunProxy(target string) (*Proxy, error) {
	p := &Proxy{target: target}
	var err error
	p.Proxy, err = testserver.RunProxy(target, testserver.ProxyOptions{Filters: p.filters})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// DropPushes drops published messages (message, pmessage and smessage) of RESP3
// connections on their way to the clients, or lets them pass again.
func (p *Proxy) DropPushes(yes bool) { p.dropPushes.Store(yes) }
