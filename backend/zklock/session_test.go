package zklock

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Promise: a session is over as soon as its client has another, or one with a shorter
// timeout: nothing that comes over that connection is taken for a proof of it.
func TestASessionIsOverOnceItsClientHasAnother(t *testing.T) {
	const ttl = 10 * time.Second
	for _, c := range []struct {
		what    string
		session int64
		timeout time.Duration
		over    bool
	}{
		{"the same session", 7, ttl, false},
		{"another session", 8, ttl, true},
		{"another session of a longer timeout", 8, 2 * ttl, true},
		{"a shorter timeout", 7, ttl - time.Millisecond, true},
		{"no session", 0, ttl, true},
	} {
		s := newStore(&config{})
		l := newLink(zk.NewLink(nil, zk.NewTap(nil), nil))
		o := s.sessionOf(l, exchange.Session{ID: "a", TTL: ttl}, 7)
		s.closed = true // it has no tasks
		close(o.freed)
		o.connected(c.session, c.timeout)
		if o.isOver() != c.over {
			t.Errorf("connected with %s: over %v", c.what, o.isOver())
		}
		o.cancel()
	}
}
