package main

import (
	"context"

	"github.com/spf13/cobra"
)

type releasedJSON struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

func newRelease(o *options) *cobra.Command {
	return &cobra.Command{
		Use:        "release NAME ID",
		SuggestFor: []string{"unlock"},
		Short:      "Give a lock back that was taken for a fixed time",
		Long: `Release gives the lock NAME back, which acquire has taken. ID is what acquire has written, or
its beginning. With --json it writes both.

Exit status: 64 if the lock has no fixed end, since a process renews it; 79 if it was gone:
it has ended, or was released or evicted, and others may have had it since.`,
		Example:           `  interlock release nightly "$id"`,
		ValidArgsFunction: completeIDs(o, ofAcquire),
		RunE: o.with(func(ctx context.Context, t task) error {
			l, err := fixed(ctx, t)
			if err != nil {
				return err
			}
			return o.done(until(ctx, l.Release), t, releasedJSON{t.name, ticketOf(l)}, "")
		}),
	}
}
