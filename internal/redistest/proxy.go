package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// Error is an error that the server has answered.
type Error string

func (e Error) Error() string { return string(e) }

// answerWithin is how long a server may take to answer one command.
const answerWithin = 10 * time.Second

// exchange sends commands over a connection of its own and returns the last answer.
func exchange(conn net.Conn, commands ...[]string) (answer any, err error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return nil, err
	}
	var request, buf []byte
	for _, args := range commands {
		request = fmt.Appendf(request, "*%d\r\n", len(args))
		for _, arg := range args {
			request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	read := make([]byte, 64<<10)
	for range commands {
		n := 0
		for answer, n = parse(buf); n == 0; answer, n = parse(buf) {
			more, err := conn.Read(read)
			if err != nil {
				return nil, err
			}
			buf = append(buf, read[:more]...)
		}
		if n < 0 {
			return nil, fmt.Errorf("unexpected answer %q", buf)
		}
		if e, ok := answer.(Error); ok {
			return nil, e
		}
		buf = buf[n:]
	}
	return answer, nil
}

// parse reads the first value of RESP2 or RESP3, and returns its length: 0 if it is not whole, -1 if these bytes are
// something else. It is a string, an int64, nil, an Error, or a []any of them.
func parse(b []byte) (v any, n int) {
	if len(b) > 0 && strings.IndexByte("+-:_#,($=!*~>%|", b[0]) < 0 {
		return nil, -1
	}
	n = bytes.IndexByte(b, '\n') + 1
	if n == 0 {
		return nil, 0
	}
	line := string(bytes.TrimSuffix(b[1:n-1], []byte("\r")))
	switch b[0] {
	case '+', '#', ',', '(':
		return line, n
	case '-':
		return Error(line), n
	case '_':
		return nil, n
	}
	size, err := strconv.Atoi(line)
	switch {
	case err != nil:
		return nil, -1
	case b[0] == ':':
		return int64(size), n
	case size < 0:
		return nil, n
	case strings.IndexByte("$=!", b[0]) >= 0:
		end := n + size + 2
		if len(b) < end {
			return nil, 0
		}
		if b[0] == '!' {
			return Error(b[n : end-2]), end
		}
		return string(b[n : end-2]), end
	case b[0] == '%':
		size *= 2
	case b[0] == '|': // attributes are followed by the value that they are about
		size = 2*size + 1
	}
	list := []any{}
	for range size {
		v, m := parse(b[n:])
		if m <= 0 {
			return nil, m
		}
		list, n = append(list, v), n+m
	}
	return list, n
}
