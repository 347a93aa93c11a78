package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock/internal/request"
	"github.com/interlock-go/interlock/driver"
)

// A ghost is the node of a ticket that has left. Servers with the faults that Check warns
// of bring such nodes back after leaders have crashed: they would stand as long as the session
// of their client, and all others wait behind them. So whoever meets one of its own
// removes it again:
//
//   - a session that finds a ticket which it has left in front of one that waits;
//   - each session asks the server once in a TTL which nodes it has (getEphemerals, in
//     ZooKeeper 3.6 and later), and removes those of tickets that it does not know.
//
// A ticket is known before its node is made, and until that is removed.

// knows reports whether a ticket is one of this session.
func (s *session) knows(id string) bool { return s.place(id) != nil }

// known reports whether a ticket is one of a session on this connection.
func (t *Tap) known(id string) bool {
	t.mu.Lock()
	all := t.snapshot()
	t.mu.Unlock()
	for _, l := range all {
		if l.knows != nil && l.knows(id) {
			return true
		}
	}
	return false
}

// haunted removes tickets that this session has left, and that stand in front of one that
// waits; s.mu is held.
func (s *session) haunted(q *lane, front []obstacle) {
	for _, o := range front {
		if o.id == "" || !s.left.Has(o.id) {
			continue
		}
		path := q.path + "/" + o.node
		s.d.background(func(ctx context.Context) {
			// Others can be asked to leave, too, and say no.
			c, err := s.l.get(ctx, path)
			if err == nil && c.stat.EphemeralOwner == s.zk && !s.l.tap.known(o.id) {
				_ = s.l.remove(ctx, path)
			}
		})
	}
}

// visit removes ghosts, once in a TTL.
func (s *session) visit(ctx context.Context) {
	now := s.d.Now()
	if now.Sub(s.visited) < s.ttl || now.Sub(driver.Instant(s.renewed.Load())) > s.ttl {
		return
	}
	s.visited = now
	ctx, cancel := context.WithTimeout(ctx, s.ttl/4)
	defer cancel()
	paths, err := s.l.tap.ephemerals(ctx, s.d.root)
	if err != nil {
		return
	}
	for _, path := range paths {
		if id := s.ticketAt(path); id != "" && !s.l.tap.known(id) {
			_ = s.l.remove(ctx, path)
		}
	}
}

// ticketAt returns the ID of a ticket of ours whose node this is, "" if there is none. A
// program's own session may have nodes of other libraries.
func (s *session) ticketAt(path string) string {
	below, ok := strings.CutPrefix(path, s.d.root+"/")
	if !ok {
		return ""
	}
	node := below[strings.LastIndexByte(below, '/')+1:]
	n, ok := parse(node)
	if !ok {
		n = parseLease(node)
		n.plain = n.limit == 0
	}
	if n.plain || !strings.HasPrefix(node, "_c_") || !s.l.own && n.kind == driver.RWMutex {
		return ""
	}
	return n.id
}

const opGetEphemerals = 103

var errNoEphemerals = errors.New("zookeeper: the server does not tell the nodes of a session")

// ephemerals lists the nodes of the session below a path. Servers before 3.6 end the
// connection when they are asked, so that they are not asked again.
func (t *Tap) ephemerals(ctx context.Context, root string) ([]string, error) {
	t.mu.Lock()
	mute := t.mute
	t.mu.Unlock()
	if mute >= mutes {
		return nil, errNoEphemerals
	}
	got, err := t.ask(ctx, opGetEphemerals, binary.BigEndian.AppendUint32(nil, uint32(len(root))), []byte(root))
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case errors.Is(err, errEnded):
		t.mute++ // perhaps because it was asked
		return nil, err
	case err != nil:
		return nil, err
	case got.code == codeUnimplemented:
		t.mute = mutes
		return nil, errNoEphemerals
	case got.code != 0:
		return nil, zk.ErrUnknown
	}
	t.mute = 0
	return texts(got.body), nil
}

// mutes is how many connections in a row may end in place of an answer.
const mutes = 3

var errEnded = errors.New("zookeeper: the connection ended in place of an answer")

// texts reads a list of strings as ZooKeeper sends it, up to one that is not there.
func texts(b []byte) (list []string) {
	r := reading{left: b}
	r.list(func() {
		t := r.text()
		if t == nil {
			r.short = true
			return
		}
		list = append(list, string(t))
	})
	return list
}

const (
	xidOwn            = -1000 // those below are of our own requests
	codeUnimplemented = -6
)

// answer is what a server says to a request of our own.
type answer struct {
	code int32
	body []byte
}

// send makes a request that the client does not know.
func (t *Tap) send(op int32, body ...[]byte) (*wire, <-chan answer, error) {
	t.mu.Lock()
	w, session := t.wire, t.session
	t.mu.Unlock()
	if w == nil || session == 0 {
		return nil, nil, zk.ErrConnectionClosed
	}
	got := make(chan answer, 1)
	w.mu.Lock()
	w.xid--
	xid := w.xid
	w.own[xid] = got
	w.mu.Unlock()
	m := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(make([]byte, 4), uint32(xid)), uint32(op))
	for _, b := range body {
		m = append(m, b...)
	}
	binary.BigEndian.PutUint32(m, uint32(len(m)-4))
	_, err := w.Write(m)
	return w, got, err
}

// ask is send that waits for the answer.
func (t *Tap) ask(ctx context.Context, op int32, body ...[]byte) (answer, error) {
	return request.Run(ctx, func() (answer, error) {
		w, got, err := t.send(op, body...)
		if err != nil {
			return answer{}, err
		}
		select {
		case a := <-got:
			return a, nil
		case <-w.gone:
			return answer{}, errEnded
		case <-time.After(time.Minute): // the client has long left the server
			return answer{}, zk.ErrConnectionClosed
		}
	})
}
