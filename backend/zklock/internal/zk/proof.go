package zk

import (
	"context"
	"errors"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
)

// A proof is the time from which the leader lets the session live for its whole timeout.
//
//   - The leader decides when a session ends. A follower names the sessions that it has
//     heard from when the leader pings it, every half tick. One that has lost its leader
//     goes on to answer its clients, and their sessions end.
//   - A sync goes to the leader and back, over the connection that the names go over. So
//     what had reached the follower half a tick before the sync has been named when the
//     sync is answered.
//   - A session is two ticks long at least: half a tick is a quarter of it at most. The
//     leader's pings may be a little late.
//   - Such an exchange proves from the time at which its request was sent, not from that
//     of its answer: nobody knows when the server had it.
//
// A session that is renewed sends a sync every ninth of its timeout (Pulse), each of
// which is a proof for those later. So the last proof is always less than half a timeout old,
// and a ticket is granted with one. While one is held the session asks two things more
// between two syncs, which its server answers by itself: if that pauses, what came last
// before it becomes a proof, and the later that was the more time is left.

// heard is an exchange with the server: its request was sent at, and had
// reached the server by.
type heard struct{ sent, by driver.Instant }

// Proven returns the time from which the leader guarantees the session.
func (t *Tap) Proven() driver.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proof
}

// passed notes that a sync that was sent at has passed the leader.
func (t *Tap) passed(sent driver.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	named := sent.Add(-t.timeout/4 - t.timeout/40)
	for len(t.heard) > 0 && t.heard[0].by <= named {
		t.proof = max(t.proof, t.heard[0].sent)
		t.heard = t.heard[1:]
	}
}

// answered notes an exchange.
func (t *Tap) answered(sent, by driver.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.talked = max(t.talked, sent)
	// After a pause the answers to a late request and to the next one come at one time, and
	// it is the second that proves something new.
	if n := len(t.heard); n > 0 && sent.Sub(t.heard[n-1].sent) < t.timeout/32 {
		return
	}
	if len(t.heard) > 64 { // nobody renews
		t.heard = t.heard[1:]
	}
	t.heard = append(t.heard, heard{sent, by})
}

// syncing notes that a sync is sent.
func (t *Tap) syncing(now driver.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.synced = now
}

// quiet is how long no sync was sent, and nothing else that was answered or is to be.
func (t *Tap) quiet() (sync, all time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := driver.Now()
	return now.Sub(t.synced), now.Sub(max(t.talked, t.pulsed))
}

// beat sends a request that only its answer is wanted of, and does not wait for that.
func (t *Tap) beat(op int32, path string) error {
	t.mu.Lock()
	w, session := t.wire, t.session
	t.pulsed = driver.Now()
	t.mu.Unlock()
	if session == 0 {
		return client.ErrConnectionClosed
	}
	r := request{op, appendText(nil, path)}
	if op == opExists {
		r.body = watching(path, false)
	}
	return w.beat(r)
}

var errBehind = errors.New("zookeeper: the server has not answered what was asked before")

// Pulse says how a session is kept proven.
type Pulse struct {
	TTL     time.Duration
	Path    string                // of a node that is there
	Holding func() bool           // tickets are held
	Renewed func() driver.Instant // when the session was last renewed
	Over    func()                // was not proven for a TTL; nil: the client is not ours, and decides that itself
	Expired func()                // was not renewed for a TTL; nil: that does not end it
}

// Pulse sends a sync whenever none was sent for a ninth of the timeout, and while a ticket is held
// something in between, which is a sync too if the last proof is old: answers are late, perhaps because this
// process is busy. It does so as long as the session is renewed.
func (t *Tap) Pulse(ctx context.Context, p Pulse) {
	every := p.TTL / 9
	for {
		age := driver.Now().Sub(t.Proven())
		if p.Over != nil && age >= p.TTL {
			p.Over()
			return
		}
		unsynced, silent := t.quiet()
		rest, op := every-unsynced, int32(opSync)
		if soon := every/3 - silent; soon < rest && p.Holding() {
			rest = soon
			if age < p.TTL*2/5 {
				op = opExists
			}
		}
		if unrenewed := driver.Now().Sub(p.Renewed()); unrenewed > p.TTL {
			if p.Expired != nil {
				p.Expired()
				return
			}
			rest = every
		} else if p.Expired != nil {
			rest = min(rest, p.TTL-unrenewed+time.Millisecond)
		}
		if rest <= 0 {
			if t.beat(op, p.Path) == nil {
				continue
			}
			rest = every / 4 // there is no connection, perhaps
		}
		if p.Over != nil {
			rest = min(rest, p.TTL-age)
		}
		select {
		case <-time.After(rest):
		case <-t.late: // so will the timer be
		case <-ctx.Done():
			return
		}
	}
}
