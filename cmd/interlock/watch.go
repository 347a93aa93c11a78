package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newWatch(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "watch NAME",
		Short: "Show a lock's state live, until interrupted",
		Long: `Watch shows what show does, again after every change. On a terminal it redraws the
screen; elsewhere, and with --json, it writes one state after the other.`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeNames(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.waits(cmd, func(ctx context.Context, c *interlock.Client) error {
				out := cmd.OutOrStdout()
				redraw := !o.json && isTerminal(out)
				for q, err := range c.Follow(ctx, args[0]) {
					switch {
					case err != nil:
						return err
					case o.json:
						if err := writeJSON(out, toJSON(q)); err != nil {
							return err
						}
						continue
					case redraw:
						fmt.Fprint(out, "\x1b[H\x1b[2J")
					}
					if _, err := fmt.Fprintf(out, "%s  ", time.Now().Format(time.TimeOnly)); err != nil {
						return err
					}
					showQueue(out, q)
				}
				return context.Cause(ctx)
			})
		},
	}
}
