package interlock

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces the repetitions of a failed call: exponential from 5 ms to
// one second, with full jitter, so that the clients of a backend that comes
// back do not arrive together.
type backoff struct {
	next time.Duration
	most time.Duration // 0: backoffMax
}

const (
	backoffMin = 5 * time.Millisecond
	backoffMax = time.Second
)

func (b *backoff) sleep(ctx context.Context) error {
	most := b.most
	if most == 0 {
		most = backoffMax
	}
	b.next = min(max(2*b.next, backoffMin), most)
	return sleep(ctx, b.next/2+rand.N(b.next))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
