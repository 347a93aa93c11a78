package zktest

import (
	"slices"
	"sync"
)

// Hold holds back frames until Release.
type Hold struct {
	proxy   *Proxy
	replies bool
	match   func(Frame) bool

	first    chan Frame
	released chan struct{}
	once     sync.Once
}

// HoldReplies holds back the replies and events that match says yes to. What
// follows them on the same connection waits behind them; other connections go
// on, and so does the other direction.
func (p *Proxy) HoldReplies(match func(Frame) bool) *Hold { return p.hold(true, match) }

// HoldRequests is like [Proxy.HoldReplies], for requests.
func (p *Proxy) HoldRequests(match func(Frame) bool) *Hold { return p.hold(false, match) }

// With matches frames with one of the operations.
func With(ops ...Op) func(Frame) bool { return oneOf(ops) }

func (p *Proxy) hold(replies bool, match func(Frame) bool) *Hold {
	h := &Hold{proxy: p, replies: replies, match: match, first: make(chan Frame, 1), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return h
}

// Held yields the first frame that is held back, as soon as it is there.
func (h *Hold) Held() <-chan Frame { return h.first }

// Release lets all pass that was held back, and all that comes.
func (h *Hold) Release() {
	h.proxy.mu.Lock()
	defer h.proxy.mu.Unlock()
	h.proxy.holds = slices.DeleteFunc(h.proxy.holds, func(other *Hold) bool { return other == h })
	h.once.Do(func() { close(h.released) })
}

// holding are those who hold a frame back.
func (p *Proxy) holding(f Frame) []*Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*Hold
	for _, h := range p.holds {
		if h.replies == f.Reply && h.match(f) {
			list = append(list, h)
		}
	}
	return list
}

func (h *Hold) caught(f Frame) <-chan struct{} {
	f.Body = slices.Clone(f.Body)
	select {
	case h.first <- f:
	default:
	}
	return h.released
}
