package redislock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: Follow and Watch over a connection that leads nowhere any more, but has no
// end, go on over another one after the timeout of the URL.
func TestWaitingOverAFrozenConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	d, err := openURL(t.Context(), "redis://"+p.Addr+"?timeout=200ms")
	for began := time.Now(); err != nil; d, err = openURL(t.Context(), "redis://"+p.Addr+"?timeout=200ms") {
		if time.Since(began) > time.Minute { // now and then a busy machine takes longer than the timeout
			t.Fatal(err)
		}
	}
	defer d.Close()
	done := make(chan error, 2)
	both := func() {
		t.Helper()
		go func() { _, err := d.Follow(t.Context(), "q", "other"); done <- err }()
		go func() { _, err := d.Watch(t.Context(), "c", 1); done <- err }()
		for range cap(done) {
			if err := received(t, "Follow or Watch", done); err != nil {
				t.Error(err)
			}
		}
	}
	both() // there are connections
	p.Freeze()
	both()
}
