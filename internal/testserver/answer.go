package testserver

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// Answer listens on a free port of this machine in the place of a server. Each connection is
// given to serve, and closed when that returns. At the end of the test all connections are
// closed, and what serve still does is waited for.
func Answer(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	return AnswerAt(t, Address(0), serve)
}

// AnswerAt is Answer at an address, or at a path as a Unix socket.
func AnswerAt(t testing.TB, at string, serve func(net.Conn)) (addr string) {
	t.Helper()
	network := "tcp"
	if strings.HasPrefix(at, "/") {
		network = "unix"
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu    sync.Mutex
		over  bool
		conns = map[net.Conn]bool{}
		all   sync.WaitGroup
	)
	// take reports whether a connection is served.
	take := func(c net.Conn) bool {
		mu.Lock()
		defer mu.Unlock()
		if over {
			c.Close()
			return false
		}
		conns[c] = true
		return true
	}
	drop := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		c.Close()
		delete(conns, c)
	}
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if take(c) {
				all.Go(func() { defer drop(c); serve(c) })
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		over = true
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}
