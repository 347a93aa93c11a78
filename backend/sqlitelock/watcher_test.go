package sqlitelock

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
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

// Promise: a client that is gone is not kept for ever among those that are told of the next change, and
// a queue that nobody else follows can be forgotten. Those that live stay.
func TestWatchersThatAreGoneAreForgotten(t *testing.T) {
	path := newFile(t)
	gone, lives := start(t, path), start(t, path)
	if gone.store.mailbox.Name == "" {
		t.Skip("no client is told of anything on this system")
	}
	for _, d := range []*client{gone, lives} {
		f := exchange.Follower{Mailbox: d.store.mailbox.Name}
		names := []string{"both"}
		if d == gone {
			names = append(names, "alone")
		}
		for _, name := range names {
			errtest.Must(d.store.Read(t.Context(), name, f))(t)
			errtest.Must(d.store.Load(t.Context(), name, f))(t)
		}
	}
	noError(t, gone.Close())
	errtest.Must(lives.store.Tidy(t.Context()))(t)
	for sql, want := range map[string]int64{
		"SELECT count(*) FROM cell WHERE name = 'alone' AND followers = ''":                                                         1,
		"SELECT count(*) FROM cell WHERE name = 'both' AND followers LIKE 'interlock\\_%' ESCAPE '\\' AND followers NOT LIKE '% %'": 1,
	} {
		if n := count(t, lives, sql); n != want {
			t.Errorf("%s: %d, not %d", sql, n, want)
		}
	}
	for name, want := range map[string]int{"both": 1, "alone": 0} {
		rewrite(t, lives, name, func(q *queue) {
			if len(q.Followers) != want {
				t.Errorf("%s is followed by %v", name, q.Followers)
			}
		})
	}
}
