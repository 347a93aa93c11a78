package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

// waitFlag adds -w to a command that waits.
func waitFlag(cmd *cobra.Command) *time.Duration {
	var d time.Duration
	durationVar(cmd.Flags(), &d, "wait", "w", "give up after this time, such as 90 or 1m30s (exit 75)")
	return &d
}

// waiting bounds ctx by the flag, if it is given.
func waiting(ctx context.Context, cmd *cobra.Command, d time.Duration) (context.Context, context.CancelFunc) {
	if !cmd.Flags().Changed("wait") {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, interlock.ErrBusy)
}
