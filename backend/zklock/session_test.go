package zklock

import (
	"context"
	"testing"
	"time"
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
		o := &session{store: s, zk: 7, ttl: ttl}
		o.ctx, o.cancel = context.WithCancel(t.Context())
		s.closed = true // it has no tasks
		o.connected(c.session, c.timeout)
		if o.isOver() != c.over {
			t.Errorf("connected with %s: over %v", c.what, o.isOver())
		}
		o.cancel()
	}
}
