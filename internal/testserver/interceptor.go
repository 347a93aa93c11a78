package testserver

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

// An Interceptor is a Proxy that understands a protocol: it shows its messages to a test, loses some of them on
// purpose, or holds them back. TLS and all other bytes that are not messages pass as they come. There is one type of
// messages, M, for requests and replies. A reply says what its request was, so that both can be chosen by it.
type Interceptor[M any] struct {
	*Proxy

	mu      sync.Mutex
	gate    func(reply bool, m M) (drop bool)
	lose    func(reply bool, m M) bool
	lost    int
	holds   []*Hold[M]
	observe func(M)
}

// Conversation reads the messages of a new connection, in both directions, one call after the other. A call
// is given all that has come and was not read yet, and returns the first message and its length: 0 if it is not whole,
// -1 if all that has come, and will come, is something else.
type Conversation[M any] func() func(reply bool, b []byte) (m M, n int)

// Intercept starts a proxy for the server at the address target. It ends with the test. Each message that is not lost
// is given to gate before it passes, one after the other; gate may count it, or drop it.
func Intercept[M any](
	t testing.TB, target string, c Conversation[M], gate func(reply bool, m M) (drop bool),
) *Interceptor[M] {
	p := &Interceptor[M]{gate: gate}
	p.Proxy = NewProxy(t, target, ProxyOptions{Filters: func() (requests, replies Filter) {
		read, mu := c(), &sync.Mutex{}
		next := func(reply bool, b []byte) (M, int) {
			mu.Lock()
			defer mu.Unlock()
			return read(reply, b)
		}
		return p.filter(false, next), p.filter(true, next)
	}})
	return p
}

// filter lets whole messages of one direction pass, up to one that ends the connection or has to wait.
func (p *Interceptor[M]) filter(reply bool, next func(bool, []byte) (M, int)) Filter {
	var (
		buf   []byte
		m     M
		n     int // length of m, while it waits
		holds []*Hold[M]
		lose  bool
	)
	return func(read []byte) (passed Passed) {
		buf = append(buf, read...)
		for len(buf) > 0 {
			if n == 0 {
				if m, n = next(reply, buf); n == 0 {
					break
				}
				if n < 0 {
					passed.Bytes, buf, n = append(passed.Bytes, buf...), nil, 0
					break
				}
				holds, lose = p.arrives(reply, m)
			}
			if len(holds) > 0 {
				passed.Wait = holds[0].catch(m)
				holds = holds[1:]
				break
			}
			if lose {
				passed.Cut = true
				break
			}
			if p.passes(reply, m) {
				passed.Frames++
				passed.Bytes = append(passed.Bytes, buf[:n]...)
			}
			buf, n = buf[n:], 0
		}
		return passed
	}
}

// arrives says what becomes of a message.
func (p *Interceptor[M]) arrives(reply bool, m M) (holds []*Hold[M], lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.holds {
		if h.reply == reply && h.match(m) {
			holds = append(holds, h)
		}
	}
	if lose = p.lose != nil && p.lose(reply, m); lose {
		p.lost++
	}
	return holds, lose
}

func (p *Interceptor[M]) passes(reply bool, m M) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate(reply, m) {
		return false
	}
	if p.observe != nil {
		p.observe(m)
	}
	return true
}

// Observe calls f with every message that passes, before it does. The calls come one after the other,
// and must not use the proxy. It replaces what was asked for before; nil ends it.
func (p *Interceptor[M]) Observe(f func(M)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe = f
}

// LoseReplies loses the next n replies to requests that match says yes to: the server executes the request, and the
// connection is closed in place of its reply. It replaces what was asked to lose before; 0 ends it.
func (p *Interceptor[M]) LoseReplies(n int, match func(M) bool) { p.loseNext(true, n, match) }

// LoseRequests is like LoseReplies, but the server does not get the requests.
func (p *Interceptor[M]) LoseRequests(n int, match func(M) bool) { p.loseNext(false, n, match) }

func (p *Interceptor[M]) loseNext(replies bool, n int, match func(M) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = func(reply bool, m M) bool {
		if reply != replies || n == 0 || !match(m) {
			return false
		}
		n--
		return true
	}
}

// Lost is how many requests and replies were lost.
func (p *Interceptor[M]) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Hold holds back messages until Release.
type Hold[M any] struct {
	release  func()
	reply    bool
	match    func(M) bool
	first    chan M
	released chan struct{}
}

// HoldReplies holds back the replies, and what else the server sends, that match says yes to. What
// follows them on the same connection waits behind them; other connections go
// on, and so does the other direction.
func (p *Interceptor[M]) HoldReplies(match func(M) bool) *Hold[M] { return p.hold(true, match) }

// HoldRequests is like HoldReplies, for requests.
func (p *Interceptor[M]) HoldRequests(match func(M) bool) *Hold[M] { return p.hold(false, match) }

func (p *Interceptor[M]) hold(reply bool, match func(M) bool) *Hold[M] {
	h := &Hold[M]{reply: reply, match: match, first: make(chan M, 1), released: make(chan struct{})}
	h.release = sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.holds = slices.DeleteFunc(p.holds, func(other *Hold[M]) bool { return other == h })
		close(h.released)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return h
}

// Held yields the first message that is held back, as soon as it is there. If none comes, it yields an empty one after
// minutes: what the test then finds says more than that its package hangs.
func (h *Hold[M]) Held() <-chan M {
	time.AfterFunc(busy.Bound(2*time.Minute), func() {
		var none M
		h.catch(none)
	})
	return h.first
}

// Release lets all pass that was held back, and all that comes.
func (h *Hold[M]) Release() { h.release() }

func (h *Hold[M]) catch(m M) (until <-chan struct{}) {
	select {
	case h.first <- m:
	default:
	}
	return h.released
}
