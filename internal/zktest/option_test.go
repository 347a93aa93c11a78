package zktest_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zktest"
)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("never: ", what)
		}
	}
}

func TestSuperuser(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Superuser("root", "secret"))
	stranger, root := connect(t, s.Addr), connect(t, s.Addr)
	stranger.do(0, opCreate, nodeFor("/a", "digest", "alice:x", 31, persistent))
	stranger.do(errNoAuth, opGetData, watched("/a", false))
	root.sendAs(-4, opAuth, body{}.int32(0).string("digest").string("root:secret"))
	if code, _ := root.reply(-4); code != 0 {
		t.Fatalf("got %d", code)
	}
	root.do(0, opGetData, watched("/a", false))
}

func TestMaxBuffer(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.MaxBuffer(1000))
	c := connect(t, s.Addr)
	c.create("/"+strings.Repeat("a", 500), persistent)
	c.send(opCreate, node("/"+strings.Repeat("a", 2000), persistent))
	c.ended()
}

// Containers and nodes with a time to live vanish.
func TestContainers(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Containers(50*time.Millisecond), zktest.TTLNodes())
	c := connect(t, s.Addr)
	c.do(0, opCreateContainer, node("/box", container))
	c.create("/box/a", persistent)
	c.do(0, opCreateTTL, node("/short", ofTTL).int64(1))
	eventually(t, "the TTL has passed", func() bool { return !c.exists("/short") })
	if !c.exists("/box") {
		t.Fatal("a container with a child is gone")
	}
	c.do(0, opDelete, body{}.string("/box/a").int32(-1))
	eventually(t, "the container is gone", func() bool { return !c.exists("/box") })
}

func TestDurable(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Durable())
	c := connect(t, s.Addr)
	c.create("/a", persistent)
	s.Kill()
	s.Restart()
	if !connect(t, s.Addr).exists("/a") {
		t.Error("the node is gone")
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.TLS())
	if got := ask(t, s, "ruok"); got != "imok" {
		t.Errorf("got %q, want imok", got)
	}
	own, err := tls.LoadX509KeyPair(s.ClientCert, s.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := trusted(t, s)
	for _, name := range []string{"localhost", "127.0.0.1"} {
		config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}, ServerName: name}
		conn, err := tls.Dial("tcp", s.Addr, config)
		if err != nil {
			t.Fatal(err)
		}
		c := wrap(t, conn)
		c.open(4 * time.Second)
		c.ping()
	}
	if _, err := tls.Dial("tcp", s.Addr, &tls.Config{ServerName: "localhost"}); err == nil {
		t.Error("the certificate is accepted without its authority")
	}
	// The server notices after the handshake of the client, and may reset the
	// connection before its reason has been read.
	bare, err := tls.Dial("tcp", s.Addr, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if err == nil {
		wrap(t, bare).ended()
	}
}

func trusted(t *testing.T, s *zktest.Server) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return roots
}

// Clients without a certificate, and those without TLS.
func TestPlainToo(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.TLS(), zktest.PlainToo(), zktest.Config("ssl.clientAuth", "none"))
	connect(t, s.Addr).ping()
	conn, err := tls.Dial("tcp", s.Addr, &tls.Config{RootCAs: trusted(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	c := wrap(t, conn)
	c.open(4 * time.Second)
	c.ping()
}

func TestSetSequence(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	c := connect(t, s.Addr)
	c.create("/a", persistent)
	c.create("/a/mine", ephemeral)
	s.SetSequence("/a", 1<<31-2)
	c, ok := c.resume(s.Addr)
	if !ok {
		t.Fatal("the session is gone")
	}
	if got := c.create("/a/x-", sequential); got != "/a/x-2147483646" {
		t.Fatalf("got %s", got)
	}
	if got := c.create("/a/x-", sequential); got != "/a/x-2147483647" {
		t.Fatalf("got %s", got)
	}
	// There the server itself is at its end.
	c.do(errNodeExists, opCreate, node("/a/x-", sequential))
	if !c.exists("/a/mine") || c.exists("/a/set-sequence") {
		t.Error("more has changed than the sequence")
	}
	s.SetSequence("/", 100)
	if got := connect(t, s.Addr).create("/x-", sequential); got != "/x-0000000100" {
		t.Errorf("got %s", got)
	}
}
