package zktest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Op is an operation, by the number that it has in ZooKeeper's protocol.
type Op int32

// Operations that tests look for.
const (
	OpConnect         Op = -10 // opens a session, or goes on with one
	OpEvent           Op = 0   // comes from the server unasked, since a watch has fired
	OpCreate          Op = 1
	OpDelete          Op = 2
	OpExists          Op = 3
	OpGetData         Op = 4
	OpSetData         Op = 5
	OpSync            Op = 9
	OpGetChildren2    Op = 12
	OpMulti           Op = 14
	OpCreateContainer Op = 19
	OpSetWatches      Op = 101
)

// hasPath says whether a request begins with a path.
func (op Op) hasPath() bool { return op > 0 && op <= 21 && op != 11 && op != OpMulti || op == 106 }

// Frame is one message: a request, the reply to one, or an event.
type Frame struct {
	Reply bool   // or an event: it goes to the client
	Op    Op     // of a reply: that of its request
	Path  string // that the request is about, the first one of a multi; or the event
	Xid   int32
	Err   int32  // of a reply: 0, or the number of an error
	Bytes int    // its whole length
	Body  []byte // all after the header, and all of what opens a session
}

// Hold holds back frames until Release.
type Hold = testserver.Hold[Frame]

// Proxy stands between clients and a server, and loses or holds back messages on purpose.
type Proxy struct {
	*testserver.Interceptor[Frame]

	mu        sync.Mutex
	requests  map[Op]int
	swallowed func(Frame) bool
}

// NewProxy starts a proxy for the server at the address target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	p := &Proxy{requests: map[Op]int{}}
	p.Interceptor = testserver.Intercept(t, target, conversation, func(reply bool, f Frame) (drop bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !reply {
			p.requests[f.Op]++
		}
		return reply && p.swallowed != nil && p.swallowed(f)
	})
	return p
}

// SwallowReplies loses the replies that match says yes to. Unlike with LoseReplies the connection goes on.
func (p *Proxy) SwallowReplies(match func(Frame) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallowed = match
}

// Requests is how many requests with one of the operations have passed.
func (p *Proxy) Requests(ops ...Op) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, op := range ops {
		n += p.requests[op]
	}
	return n
}

// With matches frames with one of the operations.
func With(ops ...Op) func(Frame) bool {
	return func(f Frame) bool { return slices.Contains(ops, f.Op) }
}

// Nth matches the n-th frame, from 1 on, that has one of the operations.
func Nth(n int, ops ...Op) func(Frame) bool {
	match := With(ops...)
	return func(f Frame) bool {
		if match(f) {
			n--
			return n == 0
		}
		return false
	}
}

// mostOpening is more than what opens a session takes; the words of four letters
// and TLS begin with what would be a greater length.
const mostOpening = 1 << 16

// conversation knows which request a reply belongs to.
func conversation() func(reply bool, b []byte) (Frame, int) {
	const eventXid = -1 // of all events
	asked := map[int32][]Frame{}
	opened, answered, raw := false, false, false
	return func(reply bool, b []byte) (f Frame, n int) {
		if raw {
			return f, -1
		}
		r := &reader{b}
		size := int(r.int32())
		if raw = len(b) >= 4 && (size < 0 || !reply && !opened && size > mostOpening); raw {
			return f, -1
		}
		if len(b) < 4+size || len(b) < 4 {
			return f, 0
		}
		n = 4 + size
		r.b = bytes.Clone(b[4:n])
		f = Frame{Reply: reply, Bytes: n}
		switch {
		case !reply && !opened:
			opened, f.Op, f.Body = true, OpConnect, r.b
			return f, n
		case !reply:
			f.Xid, f.Op = r.int32(), Op(r.int32())
			f.Body = r.b
			first := f.Op
			if first == OpMulti {
				first = Op(r.int32())
				r.take(1 + 4) // last one, error
			}
			if first.hasPath() {
				f.Path = r.string()
			}
			asked[f.Xid] = append(asked[f.Xid], f)
			return f, n
		case !answered:
			answered, f.Op, f.Body = true, OpConnect, r.b
			return f, n
		}
		f.Xid = r.int32()
		r.take(8) // zxid
		f.Err = r.int32()
		f.Body = r.b
		if f.Xid == eventXid {
			r.take(4 + 4) // kind, state
			f.Op, f.Path = OpEvent, r.string()
		} else if list := asked[f.Xid]; len(list) > 0 {
			f.Op, f.Path, asked[f.Xid] = list[0].Op, list[0].Path, list[1:]
		}
		return f, n
	}
}

// reader reads what may be too short: then it reads zeros.
type reader struct{ b []byte }

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b = nil
		return make([]byte, 8)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }

func (r *reader) string() string {
	n := r.int32()
	if n < 0 || int(n) > len(r.b) {
		return ""
	}
	return string(r.take(int(n)))
}
