package rowlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Retry calls f until it returns something else than a conflict, at most the
// given number of times, and returns what f returned. Each call must read anew
// and roll back what it began. An error is a conflict if it is ErrConflict or
// ErrBusy, or the database's way to say so, such as a lock that a statement or
// a commit did not get.
//
// Before each further call it pauses, for a random time of up to 1, 2, 4 … 100
// milliseconds. When ctx ends, or after the last call, it returns the last
// conflict.
func (t *Table) Retry(ctx context.Context, calls int, f func(context.Context) error) error {
	if calls < 1 {
		return fmt.Errorf("rowlock: retry: %d calls, at least 1 is needed", calls)
	}
	for try := 0; ; try++ {
		err := t.dialect.explain(f(ctx))
		if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrBusy) {
			return err
		}
		if try == calls-1 {
			return fmt.Errorf("rowlock: %d calls: %w", calls, err)
		}
		if ended := sleep(ctx, backoff(try, 100*time.Millisecond)); ended != nil {
			return fmt.Errorf("rowlock: %w after %d calls: %w", ended, try+1, err)
		}
	}
}

// backoff is the pause after the try-th failure, from 0: random, so that those
// who collided do not collide again.
func backoff(try int, most time.Duration) time.Duration {
	return 1 + rand.N(min(time.Millisecond<<min(try, 10), most))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
