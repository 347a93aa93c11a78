package zktest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Proxy stands between clients and a server, on a loopback port of its own. It
// can disturb the connections, and lose or hold back messages on purpose.
// Connections with TLS can be disturbed only: nothing can be read or counted
// there but bytes.
type Proxy struct {
	*testserver.Proxy

	lost atomic.Int64

	mu       sync.Mutex
	loser    *loser
	holds    []*Hold
	observe  func(Frame)
	requests map[Op]int
}

// Traffic is what has passed in one direction. Its frames are requests, or
// replies and events.
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
	p := &Proxy{requests: map[Op]int{}}
	var err error
	if p.Proxy, err = testserver.RunProxy(target, testserver.ProxyOptions{Filters: p.filters}); err != nil {
		return nil, err
	}
	return p, nil
}

// Requests is how many requests with one of the operations have passed.
func (p *Proxy) Requests(ops ...Op) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, op := range ops {
		n += p.requests[op]
	}
	return n
}

// Observe calls f with every frame that passes, before it does. The calls come
// one after the other, and must not use the proxy. It replaces what was asked
// for before; nil ends it.
func (p *Proxy) Observe(f func(Frame)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe = f
}

func (p *Proxy) passed(f Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !f.Reply {
		p.requests[f.Op]++
	}
	if p.observe != nil {
		p.observe(f)
	}
}

// link is one connection through a proxy.
type link struct {
	proxy *Proxy
	raw   atomic.Bool // it is no dialogue of requests and replies
	dialogue
}

func (p *Proxy) filters() (requests, replies testserver.Filter) {
	k := &link{proxy: p}
	opening := true
	requests = k.filter(func(f *frames) (next, bool) {
		b := f.next(opening)
		if f.raw {
			k.raw.Store(true)
		}
		if b == nil || f.raw {
			return next{bytes: b}, b != nil
		}
		n := next{b, request(b, opening), false}
		opening = false
		lose, itself := p.loses(n.frame)
		n.lose = itself
		k.asked(n.frame, lose)
		return n, true
	})
	replies = k.filter(func(f *frames) (next, bool) {
		f.raw = f.raw || k.raw.Load()
		b := f.next(false)
		if b == nil || f.raw {
			return next{bytes: b}, b != nil
		}
		n := next{bytes: b}
		n.frame, n.lose = k.answered(b)
		return n, true
	})
	return requests, replies
}

// next is a frame, or the bytes of a stream of anything else.
type next struct {
	bytes []byte
	frame Frame
	lose  bool // and end the connection
}

// filter lets whole frames pass, up to one that ends the connection or has to wait.
func (k *link) filter(read func(*frames) (next, bool)) testserver.Filter {
	var f frames
	var n next
	var ok bool
	var holds []*Hold
	return func(b []byte) (passed testserver.Passed) {
		f.buf = append(f.buf, b...)
		for {
			if !ok { // else it has waited
				if n, ok = read(&f); !ok {
					return passed
				}
				if !f.raw {
					holds = k.proxy.holding(n.frame)
				}
			}
			if len(holds) > 0 {
				passed.Wait = holds[0].caught(n.frame)
				holds = holds[1:]
				return passed
			}
			ok = false
			if n.lose {
				k.proxy.lost.Add(1)
				passed.Cut = true
				return passed
			}
			if !f.raw {
				k.proxy.passed(n.frame)
				passed.Frames++
			}
			passed.Bytes = append(passed.Bytes, n.bytes...)
		}
	}
}
