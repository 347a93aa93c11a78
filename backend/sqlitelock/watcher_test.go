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

// Promise: a client looks once at a session that has died, also if that stays in front of its waiters: a holder until
// its fixed end, or a waiter until its turn. Looking whenever it is seen there would keep all others from the file.
func TestTheDeadInFrontAreLookedAtOnce(t *testing.T) {
	for name, hold := range map[string]time.Duration{"a holder for a fixed time": time.Hour, "a waiter": 0} {
		t.Run(name, func(t *testing.T) {
			d := start(t, newFile(t))
			if d.store.mailbox.Name == "" {
				t.Skip("no death is noticed at once on this system")
			}
			other := start(t, d.store.file.path)
			s, dying := begin(t, d), begin(t, other)
			if hold == 0 {
				begin(t, other).mustJoin(t, mutex("q"), true)
			}
			r := mutex("q")
			r.Hold = hold
			dying.mustJoin(t, r, hold > 0)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			next := s.mustJoin(t, mutex("q"), false)
			go func() { _, _ = s.Await(ctx, next) }()
			watches(ctx, t, d, 1)
			dying.dies()
			for range 3 {
				s.mustJoin(t, mutex("q"), false)
			}
			const enough = 100
			for before, rests := d.Exchanges(), uint64(0); rests != d.Exchanges(); time.Sleep(50 * time.Millisecond) {
				if rests = d.Exchanges(); rests > before+enough {
					t.Fatalf("%d exchanges, and more, behind one that is dead", rests-before)
				}
			}
		})
	}
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
