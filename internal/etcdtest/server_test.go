package etcdtest_test

import (
	"net/http"
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
			answer, err := http.Get("http://" + s.Addr + "/version")
			s.Check("ask", err)
			answer.Body.Close()
			now, err := http.ParseTime(answer.Header.Get("Date"))
			s.Check("read the date", err)
			if off := time.Until(now.Add(-ahead)); off.Abs() > time.Minute {
				t.Errorf("%s: set to %v, and %v beside it", v, ahead, off)
			}
		}
		s.Ctl("put", "key", "value")
	}
}

// Promise: when the leader is killed, the others elect another one, and after its restart it has all data.
func TestTheLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 3)
	first := c.Leader()
	first.Kill()
	second := c.Leader(c.Others(first)...)
	if second == first {
		t.Fatal("the dead leads")
	}
	second.Ctl("put", "key", "value")
	first.Restart()
	c.Leader()
	if got := first.Ctl("get", "--print-value-only", "key"); got != "value\n" {
		t.Errorf("the value is %q", got)
	}
}
