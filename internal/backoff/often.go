package backoff

import (
	"context"
	"iter"
	"time"
)

// Often reads again and again until ctx ends: once a second at most, and for a tenth of the time at most.
func Often[T any](ctx context.Context, read func(context.Context) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for ctx.Err() == nil {
			began, rest := time.Now(), time.Second
			v, err := read(ctx)
			if err == nil {
				rest = max(rest, 9*time.Since(began))
			}
			if ctx.Err() != nil || !yield(v, err) || Sleep(ctx, rest) != nil {
				return
			}
		}
	}
}
