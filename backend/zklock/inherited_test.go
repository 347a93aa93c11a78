package zklock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Promise: who comes while readers hold is told that the last writer did not leave cleanly,
// and after a clean one is not told so.
func TestWhoWaitsBehindReadersInheritsFromTheWriterBeforeThem(t *testing.T) {
	t.Parallel()
	s := lent(t)
	a := session(t, opened(t, s.Addr), 20*time.Second)
	for queue, clean := range map[string]bool{"clean": true, "not": false} {
		writer := func() driver.Request {
			return driver.Request{ID: someID(), Queue: queue, Kind: driver.RWMutex, Units: driver.RWCapacity, Capacity: driver.RWCapacity, ReportDeath: true}
		}
		reader := writer()
		reader.Units = 1
		w := holds(t, a, writer())
		noError(t, a.Leave(limited(t), w, clean))
		r := holds(t, a, reader)
		next := join(t, a, writer())
		noError(t, a.Leave(limited(t), r, true))
		next, err := a.Await(limited(t), next)
		noError(t, err)
		if next.Inherited == clean {
			t.Errorf("left cleanly %v: %+v", clean, next)
		}
		noError(t, a.Leave(limited(t), next, true))
	}
}
