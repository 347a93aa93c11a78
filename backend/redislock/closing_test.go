package redislock

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
)

// clientOf is a client that says how it finds servers.
type clientOf struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (c clientOf) Mode() rueidis.ClientMode { return c.mode }

// Promise: a call that a failover ends is tried again. Only a client that is closed stays closed.
func TestAConnectionThatAFailoverClosesIsNoClosedDriver(t *testing.T) {
	for _, c := range []struct {
		what        string
		mode        rueidis.ClientMode
		own, closed bool
		permanent   bool
	}{
		{"our client, over Sentinels", rueidis.ClientModeSentinel, true, false, false},
		{"our client, of one server", rueidis.ClientModeStandalone, true, false, false},
		{"our client, and the driver is closed", rueidis.ClientModeSentinel, true, true, true},
		{"the program's client, over Sentinels", rueidis.ClientModeSentinel, false, false, false},
		{"the program's client, of one server, which the program has closed", rueidis.ClientModeStandalone, false, false, true},
	} {
		s := newStore(clientOf{mode: c.mode}, &config{own: c.own})
		if c.closed {
			s.cancel()
		}
		if err := s.Explain(rueidis.ErrClosing); driver.IsPermanent(err) != c.permanent {
			t.Errorf("%s: %v, permanent: %v", c.what, err, !c.permanent)
		}
	}
}
