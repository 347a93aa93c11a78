package memlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

// A bubble also shows that nothing stays behind: it fails if a goroutine is
// left when its test has ended.
func simulated(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble.Run(t, f) })
}

// awaitAt asserts that the ticket is held exactly d after from.
func awaitAt(t *testing.T, s driver.Session, k driver.Ticket, from time.Time, d time.Duration) driver.Ticket {
	t.Helper()
	k, err := s.Await(context.Background(), k)
	ok(t, err)
	if took := time.Since(from); took != d {
		t.Fatalf("granted after %v, want %v", took, d)
	}
	return k
}

func TestATicketEndsAtItsTime(t *testing.T) {
	ctx := context.Background()
	const much = 100 * ttl // what the sessions of waiters are granted

	tests := map[string]struct {
		hold time.Duration
		do   func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket)
		ends time.Duration // after its Join; do has taken none of it, or some
		done bool          // its holder was done, and only kept others out
	}{
		"not renewed": {ends: ttl},
		"renewed": {
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) {
				time.Sleep(ttl / 2)
				r, err := s.Renew(ctx, []driver.Ticket{k})
				ok(t, err)
				if len(r) != 1 || r[0].State != driver.Kept || r[0].Proof != d.Now() {
					t.Fatalf("%+v at %v", r, d.Now())
				}
			},
			ends: ttl + ttl/2,
		},
		"renewal of others": {
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) {
				time.Sleep(ttl / 2)
				r, err := s.Renew(ctx, nil)
				ok(t, err)
				if len(r) != 1 || r[0].State != driver.Stray || r[0].ID != k.ID {
					t.Fatalf("%+v", r)
				}
			},
			ends: ttl,
		},
		"driver closed": {
			do:   func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) { ok(t, d.Close()) },
			ends: ttl,
		},
		"session closed": {
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) { ok(t, s.Close(ctx)) },
		},
		"session expired": {
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) { d.Faults().Expire() },
		},
		"evicted, and renewed in vain": {
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) {
				ok(t, d.Ask(ctx, k.Queue, k.ID, driver.Evict))
				time.Sleep(ttl / 2)
				r, err := s.Renew(ctx, []driver.Ticket{k})
				ok(t, err)
				if len(r) != 1 || r[0].State != driver.Evicted {
					t.Fatalf("%+v", r)
				}
			},
			ends: ttl,
		},
		"forced": {
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) {
				ok(t, d.Ask(ctx, k.Queue, k.ID, driver.Force))
			},
		},
		"hold": {hold: 3 * ttl, ends: 3 * ttl},
		"hold, and the session closed": {
			hold: 3 * ttl,
			do:   func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) { ok(t, s.Close(ctx)) },
			ends: 3 * ttl,
		},
		"hold, evicted": {
			hold: 3 * ttl,
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) {
				ok(t, d.Ask(ctx, k.Queue, k.ID, driver.Evict))
				is(t, s.Keep(ctx, k, 2*ttl), driver.ErrGone)
			},
			ends: ttl,
		},
		"a short hold, evicted": {
			hold: ttl / 4,
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) {
				ok(t, d.Ask(ctx, k.Queue, k.ID, driver.Evict))
			},
			ends: ttl / 4,
		},
		"kept longer": {
			do:   func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) { ok(t, s.Keep(ctx, k, 2*ttl)) },
			ends: 2 * ttl,
			done: true,
		},
		"kept shorter": {
			hold: 5 * ttl,
			do:   func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) { ok(t, s.Keep(ctx, k, 1)) },
			ends: 1,
		},
		"kept by another session": {
			hold: ttl,
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) {
				time.Sleep(ttl / 2)
				ok(t, open(t, d).Keep(ctx, k, ttl))
				ok(t, s.Close(ctx))
			},
			ends: ttl + ttl/2,
		},
		"kept, and nobody names it to Renew": {
			do: func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) {
				ok(t, s.Keep(ctx, k, 2*ttl))
				r, err := s.Renew(ctx, nil)
				ok(t, err)
				if len(r) != 0 {
					t.Fatalf("%+v", r)
				}
			},
			ends: 2 * ttl,
			done: true,
		},
	}
	for name, tt := range tests {
		simulated(t, name, func(t *testing.T) {
			w := memlock.NewWorld()
			d, d2 := w.Driver(), w.Driver()
			defer d.Close()
			defer d2.Close()
			s := open(t, d)
			waiter, err := d2.Open(ctx, driver.SessionOptions{TTL: much})
			ok(t, err)
			r := mutex("q")
			r.Hold = tt.hold
			began := time.Now()
			k := join(t, s, r)
			next := join(t, waiter, mutex("q"))
			if next.Held {
				t.Fatal("two holders")
			}
			if tt.do != nil {
				tt.do(t, d, s, k)
			}
			next = awaitAt(t, waiter, next, began, tt.ends)
			if next.Inherited == tt.done || next.Token <= k.Token {
				t.Fatalf("%+v after %+v", next, k)
			}
		})
	}
}

func TestAWaitingTicketThatIsNotRenewedLeaves(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		d := memlock.New()
		defer d.Close()
		s := open(t, d)
		holder := join(t, s, mutex("q"))
		dead := join(t, s, mutex("q"))
		last := join(t, s, mutex("q"))
		for range 4 {
			time.Sleep(ttl / 3)
			_, err := s.Renew(t.Context(), []driver.Ticket{holder, last})
			ok(t, err)
		}
		_, err := s.Await(t.Context(), dead)
		is(t, err, driver.ErrGone)
		ok(t, s.Leave(t.Context(), holder, true))
		last, err = s.Await(t.Context(), last)
		ok(t, err)
		if last.Inherited {
			t.Fatal("a waiter that died has left nothing behind")
		}
	})
}

// The holder and the first waiter end at the same time, as after a long stop of
// the process: the waiter must not hold anything any more.
func TestADeadWaiterIsNotGranted(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		w := memlock.NewWorld()
		d := w.Driver()
		defer d.Close()
		dying := open(t, d)
		living, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour})
		ok(t, err)
		first := join(t, dying, mutex("q"))
		join(t, dying, mutex("q"))
		third := join(t, living, mutex("q"))
		third, err = living.Await(t.Context(), third)
		ok(t, err)
		if third.Token != first.Token+1 {
			t.Fatalf("token %d after %d: somebody else held it", third.Token, first.Token)
		}
	})
}

func TestAHoldBeginsWithTheGrant(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		d := memlock.New()
		defer d.Close()
		s, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour})
		ok(t, err)
		began := time.Now()
		first, second := mutex("q"), mutex("q")
		first.Hold, second.Hold = ttl, ttl
		join(t, s, first)
		k := join(t, s, second)
		k = awaitAt(t, s, k, began, ttl)
		if k.Proof != d.Now() {
			t.Fatalf("proof %v at %v", k.Proof, d.Now())
		}
		awaitAt(t, s, join(t, s, mutex("q")), began, 2*ttl)
	})
}

func TestATicketThatHasLeftIsRefusedForOneTTL(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		d := memlock.New()
		defer d.Close()
		s := open(t, d)
		left, unknown := mutex("q"), mutex("q")
		ok(t, s.Leave(t.Context(), join(t, s, left), true))
		is(t, s.Leave(t.Context(), driver.Ticket{ID: unknown.ID, Queue: "q"}, true), driver.ErrGone)
		left.Retry = true
		for range 10 {
			for _, r := range []driver.Request{left, unknown} {
				_, err := s.Join(t.Context(), r)
				is(t, err, driver.ErrGone)
			}
			time.Sleep(ttl / 10)
		}
		join(t, s, left) // and no longer: nobody may rely on that
	})
}
