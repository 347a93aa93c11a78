package memlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

func TestAURLNamesAWorld(t *testing.T) {
	ctx := t.Context()
	open := func(url string) driver.Session {
		t.Helper()
		u, err := driver.ParseURL(url)
		ok(t, err)
		d, err := driver.OpenURL(ctx, u)
		ok(t, err)
		t.Cleanup(func() { d.Close() })
		s, err := d.Open(ctx, driver.SessionOptions{TTL: ttl})
		ok(t, err)
		return s
	}
	name := "mem:" + newID()
	for _, tt := range []struct {
		first, second string
		shared        bool
	}{{"mem:", "mem:", false}, {name, name, true}, {name + "1", name + "2", false}} {
		first, second := open(tt.first), open(tt.second)
		join(t, first, mutex("q"))
		if k := join(t, second, mutex("q")); k.Held == tt.shared {
			t.Errorf("%s and %s: both hold it: %v", tt.first, tt.second, k.Held)
		}
		ok(t, first.Close(ctx))
		ok(t, second.Close(ctx))
	}
	for _, wrong := range []string{"mem:?poll=1s", "mem://host/name"} {
		u, err := driver.ParseURL(wrong)
		ok(t, err)
		if _, err := driver.OpenURL(ctx, u); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

func TestASharedWorldThatIsIdleCanGoToAnotherBubble(t *testing.T) {
	name := newID()
	for range 3 {
		bubble.Run(t, func(t *testing.T) {
			d := memlock.Shared(name).Driver()
			s := open(t, d)
			join(t, s, mutex("q"))
			began := time.Now()
			time.Sleep(ttl / 2)
			other := open(t, d)
			awaitAt(t, other, join(t, other, mutex("q")), began, ttl)
			ok(t, s.Close(t.Context()))
			ok(t, other.Close(t.Context()))
			ok(t, d.Close())
		})
	}
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

// A holder is told that others wait, also of those that waited when it was granted.
func TestAHolderIsToldOfThoseWhoWaitBehindIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		d := memlock.New()
		defer d.Close()
		s := open(t, d)
		first, second := join(t, s, mutex("q")), join(t, s, mutex("q"))
		join(t, s, mutex("q"))
		for _, holder := range []driver.Ticket{first, second} {
			got, err := s.Signals(ctx)
			ok(t, err)
			if want := (driver.Signal{Demand: driver.Wanted, Queue: "q", ID: holder.ID}); got != want {
				t.Fatalf("%+v, want %+v", got, want)
			}
			ok(t, s.Leave(ctx, holder, true))
		}
	})
}
