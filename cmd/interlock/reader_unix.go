//go:build unix

package main

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// untilUnread returns a context that ends, as by SIGPIPE, when nobody can read any more what
// is written to w: a pipe whose reader has gone. A command that waits for something to write
// would not find out. The function ends the context.
func untilUnread(ctx context.Context, w any) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if f, ok := w.(descriptor); ok {
		fd := int32(f.Fd())
		go func() {
			for ctx.Err() == nil {
				pipe := []unix.PollFd{{Fd: fd}} // what is not asked for: that it is broken
				n, err := unix.Poll(pipe, int(time.Second.Milliseconds()))
				switch {
				case err == unix.EINTR:
				case err != nil:
					return // then a write will tell
				case n > 0:
					cancel(signalled{syscall.SIGPIPE})
				}
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}
