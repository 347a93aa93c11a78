package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Beat renews tickets, and no others, until the test ends.
func Beat(t testing.TB, s *driver.Opened, every time.Duration, known ...driver.Ticket) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = s.Renew(ctx, known)
			select {
			case <-time.After(every):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}
