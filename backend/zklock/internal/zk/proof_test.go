package zk

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a proof is the time before a request was sent, never that of its answer: a
// server that answers late may have had the request at once.
func TestAProofCountsFromTheRequest(t *testing.T) {
	began := driver.Now()
	c := dialogued(t, 8*time.Millisecond)
	opened := c.tap.Proven()
	if opened < began || opened > c.begun {
		t.Errorf("the session is proven from %v after it was asked for", opened.Sub(c.begun))
	}
	before := driver.Now()
	c.ask(1, opExists)
	after := driver.Now()
	time.Sleep(4 * time.Millisecond) // longer than a sync is behind what it proves
	c.answer(1)
	if p := c.tap.Proven(); p != opened {
		t.Fatalf("an answer that came %v later has proven something: no sync has passed the leader", p.Sub(opened))
	}
	time.Sleep(4 * time.Millisecond)
	c.ask(2, opSync)
	c.answer(2)
	if p := c.tap.Proven(); p < before || p > after {
		t.Errorf("the proof is %v after its request was sent, %v before at most", p.Sub(after), after.Sub(before))
	}
}

// Promise: a sync proves nothing of what the server had less than half a tick before it, a
// quarter of the shortest session: a follower may not have named it to its leader.
func TestASyncDoesNotProveWhatTheLeaderMayNotHaveHeardOf(t *testing.T) {
	c := dialogued(t, time.Hour)
	opened := c.tap.Proven()
	for xid := range int32(20) {
		c.ask(xid, opSync)
		c.answer(xid)
	}
	if p := c.tap.Proven(); p != opened {
		t.Errorf("proven by what came right before: %v", p.Sub(opened))
	}
	c = dialogued(t, time.Second)
	opened = c.tap.Proven()
	began := driver.Now()
	c.ask(1, opExists)
	c.answer(1)
	c.ask(2, opSync)
	took := driver.Now().Sub(began)
	time.Sleep(300 * time.Millisecond)
	c.answer(2)
	if p := c.tap.Proven(); p != opened && took < 250*time.Millisecond {
		t.Errorf("a sync counts from its answer: what came right before it has proven %v", p.Sub(opened))
	}
	for _, c := range []struct {
		before  time.Duration // the sync, the server had it
		timeout time.Duration
		proven  bool
	}{
		{999 * time.Millisecond, 4 * time.Second, false},
		{1000 * time.Millisecond, 4 * time.Second, false}, // the leader may ping a little late
		{1100 * time.Millisecond, 4 * time.Second, true},
		{3700 * time.Millisecond, 15 * time.Second, false},
		{4200 * time.Millisecond, 15 * time.Second, true},
	} {
		tap := NewTap(nil)
		tap.timeout = c.timeout
		const at = driver.Instant(time.Hour)
		tap.answered(at.Add(-c.before-time.Second), at.Add(-c.before))
		tap.passed(at)
		if tap.Proven() != 0 != c.proven {
			t.Errorf("what the server had %v before a sync, of %v: proven %v", c.before, c.timeout, !c.proven)
		}
	}
}

// Promise: a new connection proves from the time before it was asked for, and makes all
// that was heard over the one before worthless: its server may not have told the leader.
func TestAConnectionProvesItself(t *testing.T) {
	tap := NewTap(nil)
	const timeout = 4 * time.Second
	tap.timeout = timeout
	at := driver.Instant(time.Hour)
	tap.answered(at, at.Add(time.Millisecond))
	tap.opened(&wire{}, at.Add(-time.Second), 1, timeout)
	if p := tap.Proven(); p != at.Add(-time.Second) {
		t.Errorf("proven %v after the request for a session", p.Sub(at.Add(-time.Second)))
	}
	tap.passed(at.Add(timeout))
	if p := tap.Proven(); p != at.Add(-time.Second) {
		t.Errorf("an exchange over an earlier connection is a proof: %v", p.Sub(at))
	}
}

// Promise: after a pause of the server, what was asked after it counts, though the answer to
// what was asked before it has come at the same time.
func TestALateAnswerHidesNoOtherProof(t *testing.T) {
	tap := NewTap(nil)
	const timeout = 4 * time.Second
	tap.timeout = timeout
	paused := driver.Instant(time.Hour)
	resumed := paused.Add(timeout / 5)
	tap.answered(paused, resumed)
	tap.answered(resumed, resumed.Add(time.Millisecond))
	tap.passed(resumed.Add(timeout * 3 / 10))
	if p := tap.Proven(); p != resumed {
		t.Errorf("proven from %v before the end of the pause", resumed.Sub(p))
	}
}

// dialogue is a client's end of a connection whose other end says what the test wants.
type dialogue struct {
	t      *testing.T
	tap    *Tap
	client net.Conn // through the tap
	server net.Conn
	begun  driver.Instant // when the session had been asked for
}

func dialogued(t *testing.T, timeout time.Duration) *dialogue {
	here, there := net.Pipe()
	tap := NewTap(func(string, string, time.Duration) (net.Conn, error) { return here, nil })
	client := errtest.Must(tap.Dial("tcp", "", 0))(t)
	t.Cleanup(func() { _ = client.Close(); _ = there.Close() })
	c := &dialogue{t: t, tap: tap, client: client, server: there}
	c.send(make([]byte, 40))
	c.begun = driver.Now()
	time.Sleep(time.Millisecond)
	granted := make([]byte, 20) // without a password
	binary.BigEndian.PutUint32(granted[4:], uint32(timeout.Milliseconds()))
	granted[15] = 1 // the session
	c.receive(granted)
	return c
}

func (c *dialogue) ask(xid, op int32) {
	c.send(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(xid)), uint32(op)))
}

func (c *dialogue) answer(xid int32) {
	c.receive(append(binary.BigEndian.AppendUint32(nil, uint32(xid)), make([]byte, 12+statSize)...))
}

// send has the client send a message.
func (c *dialogue) send(m []byte) {
	c.pass(c.client, c.server, m)
}

func (c *dialogue) receive(m []byte) {
	c.pass(c.server, c.client, m)
}

func (c *dialogue) pass(from, to net.Conn, m []byte) {
	c.t.Helper()
	m = append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...)
	_ = from.SetDeadline(time.Now().Add(time.Minute))
	_ = to.SetDeadline(time.Now().Add(time.Minute))
	sent := make(chan error, 1)
	go func() { _, err := from.Write(m); sent <- err }()
	got := make([]byte, len(m))
	for n := 0; n < len(got); {
		k, err := to.Read(got[n:])
		if err != nil {
			c.t.Fatalf("a message of %d bytes did not come through: %v", len(m), err)
		}
		n += k
	}
	errtest.None(c.t, <-sent)
}
