package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: from 5 ms the pauses double up to a second, or as long as asked for, each
// with a jitter of a half.
func TestPausesGrow(t *testing.T) {
	for _, most := range []time.Duration{0, 100 * time.Millisecond} {
		b := backoff.Backoff{Most: most}
		for due := 5 * time.Millisecond; due < time.Minute; due *= 2 {
			d := min(due, time.Second)
			if most > 0 {
				d = min(d, most)
			}
			if got := b.Next(); got < d/2 || got >= d+d/2 {
				t.Errorf("a pause of %v where %v is due", got, d)
			}
		}
	}
}

// Promise: no two clients keep in step.
func TestPausesDiffer(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		var b backoff.Backoff
		seen[b.Next()] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 clients pause for %d different times", len(seen))
	}
}

// Promise: a pause ends with its context, and says why that has ended.
func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if err := backoff.Sleep(ctx, time.Hour); err != why {
			t.Errorf("an hour that ends after a second: %v", err)
		}
		var b backoff.Backoff
		errtest.Is(t, b.Sleep(t.Context()), nil)
	})
}
