package zk

import (
	"bufio"
	"bytes"
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
	rest []byte        // of the message that the client is reading
	wait time.Duration // that the client gives each message

	mu      sync.Mutex
	asked   bool           // the session
	askedAt driver.Instant // when
	ready   bool           // the session was granted
	sent    map[int32]sent // requests without an answer
	xid     int32          // of the last request of our own
	beats   int            // of our own without a caller who waits
	out     []byte         // our own that are to be written
	writing bool
	unread  int // bytes of our own that the server may not have read
	once    sync.Once
	gone    chan struct{} // closed when the connection has ended
}

type sent struct {
	op   int32
	at   driver.Instant
	auth []byte      // credentials
	size int         // of one of our own
	got  chan answer // of one of our own; nil: no caller waits
}

func newWire(t *Tap, c net.Conn) *wire {
	return &wire{Conn: c, tap: t, in: bufio.NewReaderSize(c, 16<<10), sent: map[int32]sent{}, xid: xidOwn, gone: make(chan struct{})}
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
	w.note(p)
	n, err := w.Conn.Write(p)
	if err != nil {
		w.end()
	}
	return n, err
}

// note looks at a request of the client.
func (w *wire) note(p []byte) {
	now := driver.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.asked {
		w.tap.exchanges.Add(1)
		w.asked, w.askedAt = true, now
		// Version of the protocol, last transaction, timeout, session: a server that is behind does not go on with that.
		if len(p) >= 28 && binary.BigEndian.Uint64(p[20:]) != 0 {
			binary.BigEndian.PutUint64(p[8:], max(binary.BigEndian.Uint64(p[8:]), w.tap.Reached()))
		}
		return
	}
	if len(p) < 12 {
		return
	}
	xid, op := int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	s := sent{op: op, at: now}
	if op == opAuth {
		s.auth = bytes.Clone(p[12:])
	}
	w.noted(xid, s)
}

// noted notes that a request is sent. The mutex is held.
func (w *wire) noted(xid int32, s sent) {
	w.tap.exchanges.Add(1)
	if _, unanswered := w.sent[xid]; !unanswered { // all pings have the same number
		w.sent[xid] = s
	}
	if s.op == opSync {
		w.tap.syncing(s.at)
	}
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
	w.wait = 0
	if !d.IsZero() {
		w.wait = time.Until(d)
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

// next reads the next message for the client and looks at it. A server that answers us is not silent, though the client
// has to wait for its own answer.
func (w *wire) next() error {
	for {
		err := w.message()
		if err != nil || len(w.rest) > 0 {
			return err
		}
		if w.wait > 0 {
			_ = w.Conn.SetReadDeadline(time.Now().Add(w.wait))
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
			for _, user := range w.tap.known() { // before any other request: the client says it later
				w.send(request{opAuth, user})
			}
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
			path := reading{left: m[24:]}
			if text := path.text(); text != nil {
				w.tap.event(int32(binary.BigEndian.Uint32(m[16:])), string(text))
			}
		}
		return false, nil
	}
	w.mu.Lock()
	r, ok := w.sent[xid]
	delete(w.sent, xid)
	own = ok && xid < xidOwn
	w.unread -= r.size
	if own && r.got == nil {
		w.beats--
	}
	w.mu.Unlock()
	if ok && code == 0 && !soundReply(r.op, m[replyHead:]) {
		return false, errMessage
	}
	if ok {
		w.tap.replied(r, zxid, code != 0)
	}
	if r.got != nil {
		r.got <- answer{zxid, int32(code), m[replyHead:]}
	}
	return own, nil
}
