package etcdtest_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/etcdtest"
)

// Promise: the wall clock of a server can be set while it runs, forward and back.
func TestSetClock(t *testing.T) {
	t.Parallel()
	for _, v := range []etcdtest.Version{etcdtest.Installed, etcdtest.Current} {
		s := etcdtest.Start(t, etcdtest.Of(v))
		for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
			s.SetClock(t, ahead)
			if off := time.Until(s.WallClock().Add(-ahead)); off.Abs() > time.Minute {
				t.Errorf("%s: set to %v, and %v beside it", v, ahead, off)
			}
		}
		s.Ctl("put", "key", "value")
	}
}
