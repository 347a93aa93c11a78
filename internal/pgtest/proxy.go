package pgtest

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Proxy stands between clients and a server, or a pooler, on a loopback port of its
// own. It can disturb the connections and lose notifications on purpose.
// Connections with TLS can be disturbed only.
type Proxy struct {
	*testserver.Proxy

	drop    atomic.Bool
	dropped atomic.Int64
	passed  atomic.Int64
}

// NewProxy starts a proxy for the server at the address target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{}
	var err error
	p.Proxy, err = testserver.RunProxy(target, testserver.ProxyOptions{Filters: p.filters})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// DropNotifications drops what NOTIFY sends on its way to the clients, or lets it
// pass again.
func (p *Proxy) DropNotifications(yes bool) { p.drop.Store(yes) }

// Dropped is how many notifications were dropped.
func (p *Proxy) Dropped() int { return int(p.dropped.Load()) }

// Notifications is how many have passed.
func (p *Proxy) Notifications() int { return int(p.passed.Load()) }

// filters are those of one connection. What the server sends is messages: a letter,
// and the length of the rest in four bytes, these included.
func (p *Proxy) filters() (requests, replies testserver.Filter) {
	var buf []byte
	return testserver.Pass, func(read []byte) (out testserver.Passed) {
		buf = append(buf, read...)
		for len(buf) >= 5 {
			n := 1 + int(binary.BigEndian.Uint32(buf[1:5]))
			if len(buf) < n {
				return out
			}
			if buf[0] == 'A' && p.drop.Load() {
				p.dropped.Add(1)
			} else {
				if buf[0] == 'A' {
					p.passed.Add(1)
				}
				out.Bytes = append(out.Bytes, buf[:n]...)
				out.Frames++
			}
			buf = buf[n:]
		}
		return out
	}
}
