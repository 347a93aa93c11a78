package redistest

import (
	"errors"
	"slices"
	"strings"
	"sync"
)

// LoseReplies loses the replies to the next n requests that are one of the
// commands, or any request if there are none: the server executes the request,
// and the connection is closed in place of its reply. It replaces what was
// asked for before; 0 ends it.
func (p *Proxy) LoseReplies(n int, commands ...string) {
	p.lose(false, n, commands)
}

// LoseRequests is like [Proxy.LoseReplies], but the server does not get the
// request.
func (p *Proxy) LoseRequests(n int, commands ...string) {
	p.lose(true, n, commands)
}

func (p *Proxy) lose(requests bool, n int, commands []string) {
	p.loser.Store(&loser{requests: requests, left: n, match: oneOf(commands)})
}

func oneOf(commands []string) func(request []string) bool {
	return func(request []string) bool {
		return len(commands) == 0 || slices.ContainsFunc(commands, func(c string) bool {
			return strings.EqualFold(c, request[0])
		})
	}
}

// DelayRequest is LoseRequests of one request, which reaches the server when arrive is
// called, by another connection. Arrive returns what the server answers; the client is
// not told.
func (p *Proxy) DelayRequest(commands ...string) (arrive func() (any, error)) {
	late := make(chan []string, 1)
	matches := oneOf(commands)
	p.loser.Store(&loser{requests: true, left: 1, match: func(request []string) bool {
		if !matches(request) {
			return false
		}
		late <- request
		return true
	}})
	return func() (any, error) {
		select {
		case request := <-late:
			return exchange(p.target, nil, request)
		default:
			return nil, errors.New("no request was delayed")
		}
	}
}

// LoseRepliesTo is like [Proxy.LoseReplies], for the next request that match
// says yes to.
func (p *Proxy) LoseRepliesTo(match func(request []string) bool) {
	p.loser.Store(&loser{left: 1, match: match})
}

// Lost is how many requests and replies were lost.
func (p *Proxy) Lost() int { return int(p.lost.Load()) }

// loser chooses the requests that get no reply.
type loser struct {
	requests bool // they do not even reach the server
	match    func(request []string) bool

	mu   sync.Mutex
	left int
}

func (l *loser) wants(frame []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left <= 0 {
		return false
	}
	request := words(frame, len(frame))
	if len(request) == 0 || !l.match(request) {
		return false
	}
	l.left--
	return true
}

// pending is a request whose reply has not come.
type pending struct {
	lose  bool
	extra int // confirmations, as pushes, that come in place of a reply
}

// replies finds the request that a reply belongs to: the server answers those
// of one connection in their order.
type replies struct {
	mu   sync.Mutex
	list []pending
}

// asked notes a request before it is sent.
func (r *replies) asked(frame []byte, lose bool) {
	entry := pending{lose: lose}
	if args := words(frame, 2); len(args) > 0 {
		switch strings.ToUpper(args[0]) {
		case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
			entry.extra = max(1, elements(frame)-1)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, entry)
}

// confirmed takes one confirmation of a subscription.
func (r *replies) confirmed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 || r.list[0].extra == 0 {
		return // the server has ended a subscription by itself
	}
	if r.list[0].extra--; r.list[0].extra == 0 {
		r.list = r.list[1:]
	}
}

// answered says whether the reply that has come is to be lost. Only an error
// is a reply to a subscription; any other reply means that all confirmations
// before it have come.
func (r *replies) answered(isError bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !isError && len(r.list) > 0 && r.list[0].extra > 0 {
		r.list = r.list[1:]
	}
	if len(r.list) == 0 {
		return false
	}
	lose := r.list[0].lose
	r.list = r.list[1:]
	return lose
}
