package zklock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: an Await of a ticket that is held already is not ended by the end of the
// connection over which it makes sure of that.
func TestAwaitOfAHeldTicketOutlastsItsConnection(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	for _, r := range []driver.Request{aMutex("q"), {ID: someID(), Queue: "s", Kind: driver.Semaphore, Units: 1, Capacity: 3}} {
		d := opened(t, via.Addr)
		a := session(t, d, 20*time.Second)
		k := holds(t, a, r)
		via.Hang()
		before := d.Exchanges()
		done := make(chan error)
		go func() {
			got, err := a.Await(limited(t), k)
			if err == nil && !got.Held {
				t.Errorf("%+v", got)
			}
			done <- err
		}()
		busy.Until(t, "it asks", func() bool { return d.Exchanges() > before })
		via.Cut()
		via.Resume()
		noError(t, <-done)
	}
}
