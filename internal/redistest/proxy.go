package redistest

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Proxy stands between clients and a server, and loses or holds back messages on purpose.
type Proxy struct {
	*testserver.Interceptor[Message]

	target     string
	dropPushes atomic.Bool
}

// Message is a request, or a reply or push.
type Message struct {
	Reply   bool     // or a push
	Request []string // also of a reply, if it has one
	Push    string   // the kind of a push: "message"
}

// Command matches requests that are one of the commands, in capitals, and replies to them.
func Command(names ...string) func(Message) bool {
	return func(m Message) bool {
		return len(m.Request) > 0 && slices.Contains(names, strings.ToUpper(m.Request[0]))
	}
}

// NewProxy starts a proxy for the server at the address target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{target: target}
	p.Interceptor = testserver.Intercept(t, target, conversation, func(_ bool, m Message) (drop bool) {
		return strings.HasSuffix(m.Push, "message") && p.dropPushes.Load()
	})
	return p
}

// DropPushes drops published messages (message, pmessage and smessage) of RESP3
// connections on their way to the clients, or lets them pass again.
func (p *Proxy) DropPushes(yes bool) { p.dropPushes.Store(yes) }

// DelayRequest is LoseRequests of one request, which reaches the server when arrive is
// called, by another connection. Arrive returns what the server answers; the client is
// not told.
func (p *Proxy) DelayRequest(command string) (arrive func() (any, error)) {
	late := make(chan []string, 1)
	matches := Command(command)
	p.LoseRequests(1, func(m Message) bool {
		if !matches(m) {
			return false
		}
		late <- m.Request
		return true
	})
	return func() (any, error) {
		select {
		case request := <-late:
			conn, err := net.Dial("tcp", p.target)
			if err != nil {
				return nil, err
			}
			return exchange(conn, request)
		default:
			return nil, errors.New("no request was delayed")
		}
	}
}

// pending is a request whose reply has not come. To a subscription only an error is a reply: it has as many pushes as
// channels instead.
type pending struct {
	request []string
	pushes  int
}

// conversation finds the request that a reply belongs to: the server answers those
// of one connection in their order.
func conversation() func(reply bool, b []byte) (Message, int) {
	var asked []pending
	raw := false
	return func(reply bool, b []byte) (m Message, n int) {
		v, n := parse(b)
		if raw = raw || n < 0; raw {
			return m, -1
		}
		if n == 0 {
			return m, 0
		}
		list, _ := v.([]any)
		var words []string
		for _, w := range list {
			text, _ := w.(string)
			words = append(words, text)
		}
		first := strings.ToUpper(append(words, "")[0])
		switch {
		case !reply:
			p := pending{request: words}
			if strings.HasSuffix(first, "SUBSCRIBE") {
				p.pushes = max(1, len(words)-1)
			}
			raw = strings.HasSuffix(first, "SYNC") // a replica: what follows is a file, and more
			asked = append(asked, p)
			return Message{Request: words}, n
		case b[0] == '>':
			// A server may have ended a subscription by itself.
			if strings.HasSuffix(first, "SUBSCRIBE") && len(asked) > 0 && asked[0].pushes > 0 {
				if asked[0].pushes--; asked[0].pushes == 0 {
					asked = asked[1:]
				}
			}
			return Message{Reply: true, Push: words[0]}, n
		}
		// Another reply than an error means that all pushes before it have come.
		if _, failed := v.(Error); !failed {
			for len(asked) > 0 && asked[0].pushes > 0 {
				asked = asked[1:]
			}
		}
		if m.Reply = true; len(asked) > 0 {
			m.Request, asked = asked[0].request, asked[1:]
		}
		return m, n
	}
}
