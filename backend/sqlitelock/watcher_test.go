package sqlitelock

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// A client without waiters does not watch: it holds a lock while sessions of others come and expire,
// and that costs it nothing. One that waits sweeps as soon as something expires.
func TestOnlyThoseWhoWaitWatch(t *testing.T) {
	other := start(t, newFile(t))
	const ttl = time.Second
	brief := errtest.Must(other.Open(t.Context(), driver.SessionOptions{TTL: ttl}))(t)
	errtest.Must(brief.Join(t.Context(), mutex("q")))(t)
	d := start(t, other.store.file.path)
	s := begin(t, d)
	held := s.mustJoin(t, mutex("held"), true)
	rests := uint64(0)
	for rests != d.Exchanges() { // it may look once when it begins to listen
		rests = d.Exchanges()
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(ttl + 100*time.Millisecond)
	if used := d.Exchanges() - rests; used > 0 {
		t.Errorf("a client that only holds a lock has made %d exchanges", used)
	}
	s.mustJoin(t, mutex("q"), true)
	behind := begin(t, other)
	next := behind.mustJoin(t, mutex("held"), false)
	noError(t, s.Keep(t.Context(), held, 50*time.Millisecond))
	behind.mustAwait(t, next)
}

// A holder whose fixed end has passed is not told that it was evicted.
func TestTheEndOfAFixedTimeIsNoEviction(t *testing.T) {
	d := start(t, newFile(t))
	s, other := begin(t, d), begin(t, start(t, d.store.file.path))
	var fixed, next driver.Ticket
	for hold := 100 * time.Millisecond; ; hold *= 2 { // until the other one has come before the end
		r := mutex(hold.String())
		r.Hold = hold
		fixed = s.mustJoin(t, r, true)
		next = errtest.Must(other.Join(t.Context(), mutex(r.Queue)))(t)
		if !next.Held {
			break
		}
	}
	other.mustAwait(t, next)
	errtest.Must(s.Renew(t.Context(), []driver.Ticket{fixed}))(t)
	revoked := s.mustJoin(t, mutex("r"), true)
	noError(t, d.Ask(t.Context(), "r", revoked.ID, driver.Revoke))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		sig, err := s.Signals(ctx)
		switch {
		case err != nil:
			t.Fatal(err)
		case sig.ID == fixed.ID && sig.Demand == driver.Evict:
			t.Errorf("its time was over: %+v", sig)
		case sig.ID == revoked.ID:
			return
		}
	}
}
