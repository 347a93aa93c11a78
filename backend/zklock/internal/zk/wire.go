package zk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// wire is a connection whose messages are looked at as they pass. Each message
// is preceded by its length in four bytes. The client writes each message with one
// call, and reads from one goroutine.
type wire struct {
	net.Conn
	tap  *Tap
	in   *bufio.Reader
	rest []byte // of the message that the client is reading

	mu      sync.Mutex
	asked   bool           // the session
	askedAt driver.Instant // when
	ready   bool           // the session was granted
	session int64          // which
	sent    map[int32]sent // requests without an answer
	own     map[int32]chan answer
	xid     int32 // of the last request of our own
	once    sync.Once
	gone    chan struct{} // closed when the connection has ended
}

type sent struct {
	op int32
	at driver.Instant
}

func newWire(t *Tap, c net.Conn) *wire {
	return &wire{Conn: c, tap: t, in: bufio.NewReaderSize(c, 16<<10), sent: map[int32]sent{},
		own: map[int32]chan answer{}, xid: xidOwn, gone: make(chan struct{})}
}

func (w *wire) Close() error {
	w.end()
	return w.Conn.Close()
}

func (w *wire) end() {
	w.once.Do(func() {
		close(w.gone)
		w.tap.ended(w)
	})
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(w.note(p))
	if err != nil {
		w.end()
	}
	return n, err
}

// note looks at a request, and returns it as it is to be sent.
func (w *wire) note(p []byte) []byte {
	w.tap.exchanges.Add(1)
	now := driver.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.asked {
		w.asked, w.askedAt = true, now
		return p
	}
	if len(p) < 12 {
		return p
	}
	xid, op := int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	if _, unanswered := w.sent[xid]; !unanswered { // all pings have the same number
		w.sent[xid] = sent{op, now}
	}
	if op == opSync {
		w.tap.syncing(now)
	}
	return w.tap.armedAs(w, op, p)
}

// handshake bounds the time in which a server has to grant the session. The
// client itself would wait for several times the timeout of the session, for
// example for a follower that has lost its leader.
const handshake = 3 * time.Second

// SetReadDeadline is called by the client before each read.
func (w *wire) SetReadDeadline(d time.Time) error {
	w.mu.Lock()
	ready := w.ready
	w.mu.Unlock()
	if !ready && !d.IsZero() {
		patience := handshake
		if _, timeout := w.tap.State(); timeout > 0 {
			patience = max(timeout/4, 100*time.Millisecond)
		}
		if soon := time.Now().Add(min(patience, handshake)); soon.Before(d) {
			d = soon
		}
	}
	return w.Conn.SetReadDeadline(d)
}

// errMessage ends a connection. See sound.go.
var errMessage = errors.New("zookeeper: the server has sent what no ZooKeeper sends")

func (w *wire) Read(p []byte) (int, error) {
	if len(w.rest) == 0 {
		if err := w.next(); err != nil {
			w.end()
			return 0, err
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// next reads the next message for the client and looks at it.
func (w *wire) next() error {
	for {
		err := w.message()
		if err != nil || len(w.rest) > 0 {
			return err
		}
	}
}

// message reads a message, which may be an answer to ourselves.
func (w *wire) message() error {
	head, err := w.in.Peek(4)
	if err != nil {
		return err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	long := n > w.tap.Longest && w.lists()
	if n < 0 || n > w.tap.Longest && !long {
		return errMessage
	}
	rest := 0
	if long {
		n, rest = replyHead, n-replyHead
	}
	message := make([]byte, 4+n)
	if _, err := io.ReadFull(w.in, message); err != nil {
		return err
	}
	if long { // the client, which asked, and the connection, which others use, outlast it
		if _, err := w.in.Discard(rest); err != nil {
			return err
		}
		binary.BigEndian.PutUint32(message, replyHead)
		binary.BigEndian.PutUint32(message[replyHead:], tooLong)
	}
	own, err := w.look(message[4:])
	if err == nil && !own {
		w.rest = message
	}
	return err
}

// lists reports whether the next message answers a question for children: a member can make many, of long names.
func (w *wire) lists() bool {
	head, err := w.in.Peek(8)
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	op := w.sent[int32(binary.BigEndian.Uint32(head[4:]))].op
	return op == opGetChildren || op == opGetChildren2
}

// look looks at a message, and reports whether it is an answer to ourselves.
func (w *wire) look(m []byte) (own bool, err error) {
	w.mu.Lock()
	ready, at := w.ready, w.askedAt
	w.ready = true
	w.mu.Unlock()
	if !ready {
		if !soundGrant(m) {
			return false, errMessage
		}
		// protocol version, timeout, session
		timeout := time.Duration(int32(binary.BigEndian.Uint32(m[4:]))) * time.Millisecond
		if session := int64(binary.BigEndian.Uint64(m[8:])); session != 0 {
			w.mu.Lock()
			w.session = session
			w.mu.Unlock()
			w.tap.opened(w, at, session, timeout)
		} else {
			w.tap.expired()
		}
		return false, nil
	}
	if len(m) < replyHead {
		return false, errMessage
	}
	xid, zxid, code := int32(binary.BigEndian.Uint32(m)), int64(binary.BigEndian.Uint64(m[4:])), binary.BigEndian.Uint32(m[12:])
	if xid == xidEvent {
		if len(m) >= 24 {
			if path, ok := text(m[24:]); ok {
				w.tap.event(int32(binary.BigEndian.Uint32(m[16:])), path)
			}
		}
		return false, nil
	}
	w.mu.Lock()
	r, ok := w.sent[xid]
	delete(w.sent, xid)
	asker := w.own[xid]
	delete(w.own, xid)
	session := w.session
	w.mu.Unlock()
	if ok && code == 0 && !soundReply(r.op, m[replyHead:]) {
		return false, errMessage
	}
	if ok {
		w.tap.replied(r, session, zxid, code != 0, m[replyHead:])
	}
	if asker != nil {
		asker <- answer{int32(code), m[replyHead:]}
	}
	return asker != nil, nil
}
