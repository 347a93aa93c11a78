package etcdtest

import (
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// NewProxy starts a proxy for a server. It ends with the test.
func NewProxy(t testing.TB, addr string) *testserver.Proxy {
	t.Helper()
	p, err := testserver.RunProxy(addr, testserver.ProxyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
