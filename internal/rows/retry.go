package rows

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Retry calls f until it returns something else than an error that is
// Retryable, at most the given number of times.
func Retry(ctx context.Context, d Dialect, calls int, f func(context.Context) error) error {
	if calls < 1 {
		return fmt.Errorf("%d calls, at least 1 is needed", calls)
	}
	for try := 0; ; try++ {
		err := Explain(d, f(ctx))
		if err == nil || !Retryable(err) {
			return err
		}
		if try == calls-1 {
			return fmt.Errorf("%d calls: %w", calls, err)
		}
		if ended := Sleep(ctx, Backoff(try, 100*time.Millisecond)); ended != nil {
			return fmt.Errorf("%w after %d calls: %w", ended, try+1, err)
		}
	}
}

// Backoff is the pause after the try-th failure, from 0: random, so that those
// who collided do not collide again.
func Backoff(try int, most time.Duration) time.Duration {
	return 1 + rand.N(min(time.Millisecond<<min(try, 10), most))
}

// Sleep waits, or returns the error of the context.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// poll repeats try, which does not wait, for so long while it is busy.
func poll(ctx context.Context, d Dialect, wait time.Duration, try func() error) error {
	start := time.Now()
	for i := 0; ; i++ {
		err := try()
		if err == nil || d.Meaning(err) != ErrBusy || d.Ended(err) {
			return err
		}
		left := wait - time.Since(start)
		if left <= 0 {
			return err
		}
		if ended := Sleep(ctx, min(left, Backoff(i, 20*time.Millisecond))); ended != nil {
			return ended
		}
	}
}
