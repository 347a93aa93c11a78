package zklock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a connection that ends while a session is opened, as those of short sessions do when a
// server is slow, is made again.
func TestOpeningOutlastsAConnection(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d := opened(t, via.Addr)
	h := via.HoldReplies(zktest.With(zktest.OpCreate))
	go func() {
		<-h.Held()
		via.Cut()
		h.Release()
	}()
	if _, err := d.Open(limited(t), driver.SessionOptions{TTL: 2 * time.Second}); err != nil {
		t.Error(err)
	}
}
