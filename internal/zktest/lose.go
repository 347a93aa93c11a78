package zktest

import "slices"

// LoseReplies loses the replies to the next n requests with one of the
// operations, or with any if there are none: the server executes the request,
// and the connection is closed in place of its reply. It replaces what was
// asked to lose before; 0 ends it.
func (p *Proxy) LoseReplies(n int, ops ...Op) { p.lose(&loser{left: n, match: oneOf(ops)}) }

// LoseReplyTo is like [Proxy.LoseReplies], for the next request that match says
// yes to.
func (p *Proxy) LoseReplyTo(match func(request Frame) bool) { p.lose(&loser{left: 1, match: match}) }

// LoseRequest is like [Proxy.LoseReplyTo], but the server does not get the request.
func (p *Proxy) LoseRequest(match func(request Frame) bool) {
	p.lose(&loser{left: 1, match: match, requests: true})
}

// Nth matches the n-th frame, from 1 on, that has one of the operations.
func Nth(n int, ops ...Op) func(Frame) bool {
	match := oneOf(ops)
	return func(f Frame) bool {
		if !match(f) {
			return false
		}
		n--
		return n == 0
	}
}

func oneOf(ops []Op) func(Frame) bool {
	return func(f Frame) bool { return len(ops) == 0 || slices.Contains(ops, f.Op) }
}

// Lost is how many requests and replies were lost.
func (p *Proxy) Lost() int { return int(p.lost.Load()) }

// loser chooses the requests that get no reply.
type loser struct {
	requests bool // they do not even reach the server
	match    func(Frame) bool
	left     int
}

func (p *Proxy) lose(l *loser) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loser = l
}

// loses says whether the reply to a request is to be lost, or the request itself.
func (p *Proxy) loses(f Frame) (reply, request bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.loser
	if l == nil || l.left <= 0 || !l.match(f) {
		return false, false
	}
	l.left--
	return !l.requests, l.requests
}
