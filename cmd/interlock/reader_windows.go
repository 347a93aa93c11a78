package main

import "context"

// untilUnread leaves it to the next write to find out that nobody reads.
func untilUnread(ctx context.Context, _ any) (context.Context, func()) {
	return context.WithCancel(ctx)
}
