package drivertest

import (
	"context"
	"errors"
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

// FrozenConnection makes sure that Follow and Watch over a connection that leads nowhere any more, but
// has no end, go on over another one. Freeze does that to all connections that there are.
func FrozenConnection(t testing.TB, d driver.Driver, freeze func()) {
	t.Helper()
	follow := func() error {
		_, err := d.Follow(t.Context(), "q", "other")
		return err
	}
	watch := func() error {
		_, err := d.Watch(t.Context(), "a/value", 1)
		return err
	}
	if err := errors.Join(follow(), watch()); err != nil { // there are connections
		t.Fatal(err)
	}
	freeze()
	done := make(chan error)
	go func() { done <- follow() }()
	go func() { done <- watch() }()
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
}
