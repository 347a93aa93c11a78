// Package backoff spaces the repetitions of what has failed.
package backoff

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is exponential, from 5 ms to a second, with jitter, so that the clients of
// a backend that comes back do not arrive together. The zero value is for the first
// failure.
type Backoff struct {
	Most time.Duration // 0: a second
	next time.Duration
}

const (
	least = 5 * time.Millisecond
	most  = time.Second
)

// Next is how long to wait before the next try: half as long to one and a half times
// as long as is due.
func (b *Backoff) Next() time.Duration {
	b.next = min(max(2*b.next, least), cmp.Or(b.Most, most))
	return b.next/2 + rand.N(b.next)
}

// Sleep waits before the next try, or returns the cause of the end of ctx.
func (b *Backoff) Sleep(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep is time.Sleep until ctx ends, whose cause it returns then.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
