package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newRelease(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "release NAME ID",
		Short: "Give a lock back that was taken for a fixed time",
		Long: `Release gives the lock NAME back, which acquire has taken. ID is what acquire has written, or
its beginning.

Exit status: 64 if the lock has no fixed end, since a process renews it; 79 if it was gone:
it has ended, or was released or evicted, and others may have had it since.`,
		Example:           `  interlock release nightly "$id"`,
		Args:              exactly("NAME", "ID"),
		ValidArgsFunction: completeFixed(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				l, err := fixed(ctx, c, args[0], args[1])
				if err != nil {
					return err
				}
				return until(ctx, l.Release)
			})
		},
	}
}

// until returns what f returns, but does not wait for it when ctx has ended.
func until(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
