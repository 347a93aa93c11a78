package mysqllock_test

import (
	"testing"

	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: Follow and Watch over a connection that leads nowhere any more, but has no
// end, go on over another one.
func TestWaitingOverAFrozenConnection(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	p := mysqltest.NewProxy(t, s)
	drivertest.FrozenConnection(t, opened(t, p.URL()), p.Freeze)
}
