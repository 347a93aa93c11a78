package suite

import (
	"sync"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// A Network is what is between one client and the servers.
type Network struct {
	TB      testing.TB
	Filters func() (requests, replies testserver.Filter)

	mu      sync.Mutex
	proxies map[string]*testserver.Proxy
}

// At is where the client finds a server: the World.Via of a backend.
func (n *Network) At(server string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proxies == nil {
		n.proxies = map[string]*testserver.Proxy{}
	}
	p := n.proxies[server]
	if p == nil {
		var err error
		if p, err = testserver.RunProxy(server, testserver.ProxyOptions{Filters: n.Filters}); err != nil {
			n.TB.Errorf("%v", err)
			return server
		}
		n.TB.Cleanup(p.Close)
		n.proxies[server] = p
	}
	return p.Addr
}

// Each does something to the way to each server.
func (n *Network) Each(f func(*testserver.Proxy)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.proxies {
		f(p)
	}
}

// Connections are how many the client has.
func (n *Network) Connections() (all int) {
	n.Each(func(p *testserver.Proxy) { all += p.Connections() })
	return all
}

// Silence has one of the connections lead nowhere any more.
func (n *Network) Silence(i int) {
	n.Each(func(p *testserver.Proxy) {
		if i >= 0 {
			p.Silence(i)
		}
		i -= p.Connections()
	})
}

// Restore lets the client close what it has.
func (n *Network) Restore() { n.Each(func(p *testserver.Proxy) { p.Resume(); p.Cut() }) }
