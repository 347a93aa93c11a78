// Package deadline tells what a context is too late to tell.
package deadline

import (
	"context"
	"time"
)

// Err is the error of a context, not later than its deadline: a connection that was given
// the same deadline may see it pass a moment before the context's own timer does.
func Err(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}
