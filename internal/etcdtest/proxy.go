package etcdtest

import (
	"net"
	"os/exec"
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

// GRPCProxy starts the gRPC proxy of the installed etcd for a server, and returns its address. It ends with the test.
func GRPCProxy(t testing.TB, addr string) string {
	t.Helper()
	port, release, err := testserver.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	own := testserver.Address(port)
	cmd := exec.Command("etcd", "grpc-proxy", "start", "--endpoints="+addr, "--listen-addr="+own)
	cmd.Dir = t.TempDir()
	p, err := testserver.Begin(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	err = testserver.Until(func() (bool, error) {
		c, err := net.Dial("tcp", own)
		if err == nil {
			_ = c.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return own
}
