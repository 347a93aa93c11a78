package memlock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

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
