package zk

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Tap listens to the connections of a client of ZooKeeper, which keeps to
// itself what locks depend on: the timeout that the server granted, the
// transaction of each reply, when a session was last proven, and the end of a
// connection. A program that brings its own client gives it Tap.Dial:
//
//	tap := zklock.NewTap(nil)
//	conn, _, err := client.Connect(hosts, timeout, client.WithDialer(tap.Dial))
//	…
//	d, err := zklock.New(ctx, conn, tap)
type Tap struct {
	dial      func(network, address string, timeout time.Duration) (net.Conn, error)
	exchanges atomic.Uint64
	reached   atomic.Uint64
	epoch     atomic.Uint64
	numbers   atomic.Uint64
	closed    atomic.Bool
	late      chan struct{} // rung by answers that are: see Pulse
	Longest   int           // of the answers, in bytes; another one than maxHandover in tests

	mu        sync.Mutex
	session   int64 // of the present connection; 0 between connections
	wire      *wire // the present connection
	timeout   time.Duration
	proof     driver.Instant // see proof.go
	heard     []heard        // exchanges that may become proofs, oldest first
	synced    driver.Instant // the last sync was sent then
	spoke     driver.Instant // the last answer came then, but to a ping; or the session was granted
	talked    driver.Instant // the last request that was answered was sent then
	pulsed    driver.Instant // a request by which the session is proven was sent then
	users     [][]byte       // credentials of the client
	watched   map[string][]*Watch
	listeners map[*Listener]struct{}
	bearer    int64 // the session that weight is of
	weight    int   // of its tickets
}

// Listener is told of what happens to a connection. Its functions run where the
// connection is read, and wait for nothing.
type Listener struct {
	Connected    func(session int64, timeout time.Duration) // 0: the server says that the session is over
	Disconnected func()                                     // nil: not told
	Knows        func(id string) bool                       // a ticket; nil: none
}

// NewTap makes a Tap for one client. It connects by dial, or by TCP if dial is nil.
func NewTap(dial func(network, address string, timeout time.Duration) (net.Conn, error)) *Tap {
	if dial == nil {
		dial = net.DialTimeout
	}
	return &Tap{dial: dial, Longest: maxHandover, late: make(chan struct{}, 1), watched: map[string][]*Watch{}, listeners: map[*Listener]struct{}{}}
}

// Dial connects to a server; it is for client.WithDialer.
func (t *Tap) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := t.dial(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return newWire(t, c), nil
}

// Dialler connects as the client does, without its Tap.
func (t *Tap) Dialler() Dialler { return t.dial }

// Exchanges counts requests, those by which the client keeps its connection alive included.
func (t *Tap) Exchanges() uint64 { return t.exchanges.Load() }

// Reached is the transaction that the server had reached with its last answer.
func (t *Tap) Reached() uint64 { return t.reached.Load() }

// Epoch counts connections that have ended.
func (t *Tap) Epoch() uint64 { return t.epoch.Load() }

// Closed says that a server has ended the session, since the client asked it to.
func (t *Tap) Closed() bool { return t.closed.Load() }

// Number numbers sessions of drivers on this connection.
func (t *Tap) Number() uint64 { return t.numbers.Add(1) }

// Listen has a listener told until stop is called.
func (t *Tap) Listen(l *Listener) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listeners[l] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.listeners, l)
	}
}

// State returns the session of the present connection, 0 if there is none, and
// the timeout that the server granted.
func (t *Tap) State() (session int64, timeout time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session, t.timeout
}

// Lost reports whether the session has ended, to all appearances: no server has gone on with it for
// its whole timeout. One that has lost its data refuses each client that has seen a later transaction.
func (t *Tap) Lost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session == 0 && driver.Now().Sub(max(t.talked, t.proof)) > t.timeout
}

// opened notes that a server has accepted the session. It has asked the leader.
func (t *Tap) opened(w *wire, sent driver.Instant, session int64, timeout time.Duration) {
	t.mu.Lock()
	t.wire, t.session, t.timeout, t.proof = w, session, timeout, max(t.proof, sent)
	t.heard, t.spoke = nil, driver.Now()
	t.mu.Unlock()
	for _, l := range t.snapshot() {
		l.Connected(session, timeout)
	}
}

// expired notes that a server says that the session is over.
func (t *Tap) expired() {
	for _, l := range t.snapshot() {
		l.Connected(0, 0)
	}
}

// ended notes the end of a connection, which the client may not have seen yet.
func (t *Tap) ended(w *wire) {
	t.mu.Lock()
	if t.wire != w {
		t.mu.Unlock()
		return
	}
	t.wire, t.session = nil, 0
	t.epoch.Add(1)
	t.mu.Unlock()
	for _, l := range t.snapshot() {
		if l.Disconnected != nil {
			l.Disconnected()
		}
	}
	t.invalidate()
}

func (t *Tap) snapshot() []*Listener {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.listeners))
}

// DropIfSilent leaves a server that answers nothing for so long, while there is
// time for another. One that is slow answers what was asked before, in its order: it is not
// left, for another would be asked all of that again. A server that has lost its leader answers
// nothing that was asked after the heartbeat; pings do not count. Nor does the time by which this process
// itself is late: the answer may be there, and another connection would only be more work.
func (t *Tap) DropIfSilent(limit time.Duration, answered <-chan struct{}) {
	const steps = 4
	var last driver.Instant
	for silent := 0; ; silent++ {
		t.mu.Lock()
		if t.spoke != last {
			last, silent = t.spoke, 0
		}
		t.mu.Unlock()
		if silent == steps {
			t.drop()
			return
		}
		timer := time.NewTimer(limit / steps)
		select {
		case <-timer.C:
		case <-answered:
			timer.Stop()
			return
		}
	}
}

// drop ends the present connection, so that the client goes to another server.
func (t *Tap) drop() {
	t.mu.Lock()
	w := t.wire
	t.mu.Unlock()
	if w != nil {
		_ = w.Close()
	}
}

// known is whom the client has said that it is.
func (t *Tap) known() [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.users
}

// Wait returns when the client has a session, or has been told that it is over.
func (t *Tap) Wait(ctx context.Context) error {
	up := make(chan struct{}, 1)
	stop := t.Listen(&Listener{Connected: func(int64, time.Duration) { ring(up) }})
	defer stop()
	if s, _ := t.State(); s != 0 {
		return nil
	}
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opSetData         = 5
	opGetACL          = 6
	opGetChildren     = 8
	opSync            = 9
	opPing            = 11
	opGetChildren2    = 12
	opCheck           = 13
	opMulti           = 14
	opReconfig        = 16
	opCreateContainer = 19
	opAuth            = 100
	opSetWatches      = 101
	opGetEphemerals   = 103
	opClose           = -11
	opError           = -1 // of one of several operations

	xidEvent    = -1
	maxHandover = 64 << 20    // bytes of an answer
	tooLong     = 1<<32 - 100 // the code of ErrTooLong, which no server sends
)

// replied notes a reply to a session.
func (t *Tap) replied(r sent, zxid int64, failed bool) {
	now := driver.Now()
	if zxid > 0 {
		t.reached.Store(uint64(zxid))
	}
	t.answered(r.at, now)
	t.mu.Lock()
	if r.op != opPing {
		t.spoke = now
	}
	if r.auth != nil && !failed && !slices.ContainsFunc(t.users, func(u []byte) bool { return bytes.Equal(u, r.auth) }) {
		t.users = append(t.users, r.auth)
	}
	late := now.Sub(max(t.talked, t.pulsed)) > t.timeout/27
	t.mu.Unlock()
	if late {
		ring(t.late)
	}
	switch {
	case failed:
	case r.op == opSync:
		t.passed(r.at)
	case r.op == opClose:
		t.closed.Store(true)
	}
}

// Knows reports whether a ticket is one of a session on this connection.
func (t *Tap) Knows(id string) bool {
	return slices.ContainsFunc(t.snapshot(), func(l *Listener) bool { return l.Knows != nil && l.Knows(id) })
}

// Burden adds to the weight of a session, unless that becomes too much.
func (t *Tap) Burden(session int64, weight, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bearer != session {
		t.bearer, t.weight = session, 0
	}
	if t.weight+weight > most {
		return false
	}
	t.weight += weight
	return true
}

// Lighten takes it away.
func (t *Tap) Lighten(session int64, weight int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bearer == session {
		t.weight -= weight
	}
}
