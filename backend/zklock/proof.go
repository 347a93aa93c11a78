package zklock

import (
	"context"
	"time"

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
// A session that is renewed sends a sync every ninth of its timeout (pulse), each of
// which is a proof for those later. So the last proof is always less than half a timeout old,
// and a ticket is granted with one.

// heard is an exchange with the server: its request was sent at, and had
// reached the server by.
type heard struct{ sent, by driver.Instant }

// proven returns the time from which the leader guarantees the session.
func (t *Tap) proven() driver.Instant {
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
	if n := len(t.heard); n > 0 && by.Sub(t.heard[n-1].by) < t.timeout/32 {
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

// quiet is how long no sync was sent.
func (t *Tap) quiet() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return driver.Now().Sub(t.synced)
}

// sync asks the leader, and waits until the server shows what it has shown till then.
func (s *session) sync(ctx context.Context) error {
	root := s.d.root
	if root == "" {
		root = "/"
	}
	return s.l.sync(ctx, root)
}

// pulse sends a sync whenever none was sent for a ninth of the timeout, as long as
// somebody renews the session.
func (s *session) pulse() {
	ctx, cancel := s.within(s.d.ctx)
	defer cancel()
	every := s.ttl / 9
	for {
		rest := every - s.l.tap.quiet()
		if s.d.Now().Sub(driver.Instant(s.renewed.Load())) > s.ttl {
			rest = every
		}
		if rest <= 0 {
			call, cancel := context.WithTimeout(ctx, s.ttl/4)
			if err := s.sync(call); err != nil { // there is no connection, perhaps
				rest = every / 4
			}
			cancel()
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return
		}
	}
}
