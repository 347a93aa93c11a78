package mysqllock

import (
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

var noError = errtest.None

// Promise: all clients of this process with the same URL share their connections and what they hear, until the last of
// them is closed; those with another user, password, option or host do not.
func TestClientsOfAURLShareItsConnections(t *testing.T) {
	get := func(text string) *store {
		u := errtest.Must(driver.ParseURL(text))(t)
		s, _, err := storeOf(u)
		noError(t, err)
		return s
	}
	const one = "mysql://u:p@127.0.0.1:1/d"
	a, b := get(one), get(one)
	if a != b || a.mailbox == "" || a.limiter == nil {
		t.Errorf("two clients of a URL: %p and %p", a, b)
	}
	for _, other := range []string{
		"mysql://u:q@127.0.0.1:1/d", "mysql://v:p@127.0.0.1:1/d", "mysql://u:p@127.0.0.1:2/d", "mysql://u:p@127.0.0.1:1/e", one + "?table_prefix=x_", one + "?tls=true",
		one + "?max_connections=20",
	} {
		s := get(other)
		if s == a {
			t.Errorf("%s is taken for %s", other, one)
		}
		s.Close()
	}
	a.Close()
	if c := get(one); c != b {
		t.Error("a client that comes later has connections of its own")
	} else {
		c.Close()
	}
	b.Close()
	stores.mu.Lock()
	defer stores.mu.Unlock()
	if len(stores.all) != 0 {
		t.Errorf("%d stores are kept after the last client", len(stores.all))
	}
}
