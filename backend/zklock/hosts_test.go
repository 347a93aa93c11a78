package zklock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Promise: a name of the URL that cannot be resolved keeps nobody from the other servers, and
// is no error of usage.
func TestANameThatCannotBeResolved(t *testing.T) {
	t.Parallel()
	s := lent(t)
	const unknown = "server.invalid:2181"
	for _, addrs := range []string{s.Addr + "," + unknown, unknown + "," + s.Addr} {
		a := session(t, opened(t, addrs), 10*time.Second)
		noError(t, a.Leave(limited(t), holds(t, a, aMutex("q")), true))
		noError(t, a.Close(limited(t)))
	}
	d := opened(t, unknown)
	_, err := d.Open(limited(t), driver.SessionOptions{TTL: time.Second})
	if err == nil || driver.IsPermanent(err) || !strings.Contains(err.Error(), "server.invalid") {
		t.Errorf("Open: %v", err)
	}
}
