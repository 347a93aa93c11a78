package zk

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Promise: a server without others is tried again at once when a connection that lasted has
// ended, and spared after that; one of several comes again after the others, and a rest.
func TestASoleServerIsTriedAgainAtOnce(t *testing.T) {
	var ttl time.Duration
	synctest.Test(t, func(t *testing.T) {
		rests := func(h *hosts, want ...bool) {
			t.Helper()
			for i, want := range want {
				if _, rest := h.Next(); rest != want {
					t.Errorf("before attempt %d the client rests: %v", i+1, rest)
				}
			}
		}
		alone := &hosts{addresses: make([]address, 1), turn: -1, connected: -1, ttl: func() time.Duration { return ttl }}
		rests(alone, false, true, true)
		alone.Connected()
		time.Sleep(clientRest / 2)
		rests(alone, true, true) // it ended soon
		alone.Connected()
		time.Sleep(2 * clientRest)
		rests(alone, false, true, true)

		several := &hosts{addresses: make([]address, 3), turn: -1, connected: -1, ttl: func() time.Duration { return ttl }}
		rests(several, false)
		several.Connected()
		time.Sleep(2 * clientRest)
		rests(several, false, false, true, false, false, true)

		ttl = 4 * time.Second // leases may be saved, for half of it
		alone.Connected()
		time.Sleep(2 * clientRest)
		began, tries := time.Now(), 0
		for rest := false; !rest; tries++ {
			_, rest = alone.Next()
		}
		if took := time.Since(began); took != ttl/2 || tries != 22 {
			t.Errorf("%d tries in %v, before the client rests", tries, took)
		}
		alone.Connected()
		time.Sleep(2 * clientRest)
		rests(alone, false, false)
		alone.left.Store(true) // the client looks for that where it rests
		rests(alone, true)
	})
}

// Promise: a server is left when it has not answered for the limit, and not for the silence of the
// connection before, nor for time in which this process itself was late.
func TestASilentServerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		tap := NewTap(nil)
		w := newWire(tap, here)
		defer w.Close()
		const limit = time.Hour
		began := time.Now()
		go tap.DropIfSilent(limit, nil)
		time.Sleep(limit * 9 / 10)
		tap.opened(w, driver.Now(), 1, time.Minute) // another one has granted the session
		<-w.gone
		if after := time.Since(began); after < limit*19/10 || after > limit*23/10 {
			t.Errorf("it was left after %v", after)
		}
	})
}
