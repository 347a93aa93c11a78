package rows

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/interlock-go/interlock/internal/backoff"
)

// Retry calls f until it returns something else than an error that is
// Retryable, at most the given number of times.
func Retry(ctx context.Context, d Dialect, calls int, f func(context.Context) error) error {
	return RetryIf(ctx, calls, Retryable, func(ctx context.Context) error { return Explain(d, f(ctx)) })
}

// RetryIf calls f again after the errors for which again says so.
func RetryIf(ctx context.Context, calls int, again func(error) bool, f func(context.Context) error) error {
	if calls < 1 {
		return fmt.Errorf("%d calls, at least 1 is needed", calls)
	}
	for try := 0; ; try++ {
		err := f(ctx)
		if err == nil || !again(err) {
			return err
		}
		if try == calls-1 {
			return fmt.Errorf("%d calls: %w", calls, err)
		}
		if backoff.Sleep(ctx, Backoff(try, 100*time.Millisecond)) != nil {
			return fmt.Errorf("%w after %d calls: %w", ctx.Err(), try+1, err)
		}
	}
}

// Backoff is the pause after the try-th failure, from 0: of any length up to a bound, so
// that those who collided do not collide again. It is shorter than those of package
// backoff: nothing is ill, and somebody else will soon be done.
func Backoff(try int, most time.Duration) time.Duration {
	return 1 + rand.N(min(time.Millisecond<<min(try, 10), most))
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
		if backoff.Sleep(ctx, min(left, Backoff(i, 20*time.Millisecond))) != nil {
			return ctx.Err()
		}
	}
}
