// Package takeover is for tests of what a replica has lost that takes over.
package takeover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
)

// LosesReleases has a client release locks after the replica receives nothing more, and
// demands that after the failover these are free for others, while it keeps what it holds.
// The URL leads to both servers.
func LosesReleases(t *testing.T, url string, stopReceiving, failOver func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := func() *interlock.Client {
		c, err := interlock.Open(ctx, url, interlock.TTL(3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	acquire := func(c *interlock.Client, name string) *interlock.Lease {
		t.Helper()
		l, err := c.Mutex(name).Acquire(ctx)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return l
	}
	c, other := client(), client()
	kept, alone, wanted := acquire(c, "kept"), acquire(c, "alone"), acquire(c, "wanted")
	wait, giveUp := context.WithCancel(ctx)
	gaveUp := make(chan error, 1)
	go func() {
		_, err := other.Mutex("wanted").Acquire(wait)
		gaveUp <- err
	}()
	for q, err := range c.Admin().Follow(ctx, "wanted") {
		if err != nil {
			t.Fatal(err)
		}
		if len(q.Waiters) > 0 {
			break
		}
	}
	giveUp()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Fatalf("what is held: %v", err)
	}
	stopReceiving()
	for _, l := range []*interlock.Lease{alone, wanted} {
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
	failOver()
	for _, name := range []string{"alone", "wanted"} {
		if err := acquire(other, name).Release(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := kept.Err(); err != nil {
		t.Errorf("what was held is lost: %v", err)
	}
	if _, err := other.Mutex("kept").TryAcquire(ctx); !errors.Is(err, interlock.ErrBusy) {
		t.Errorf("what is held: %v", err)
	}
}
