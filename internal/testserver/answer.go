package testserver

import (
	"context"
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
	over, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				defer context.AfterFunc(over, func() { c.Close() })()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		end()
		all.Wait()
	})
	return l.Addr().String()
}
