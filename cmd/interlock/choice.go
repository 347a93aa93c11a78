package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/internal/view"
)

// choose adds the flags that filter and sort locks, and checks them before the command runs.
func choose(cmd *cobra.Command, c *view.Choice) {
	cmd.Flags().BoolVar(&c.Waiting, "waiting", false, "only locks that somebody waits for")
	durationVar(cmd.Flags(), &c.Older, "older", "", "only locks with a holder or waiter that is in line for longer than this")
	cmd.Flags().StringVar(&c.Owner, "owner", "", "only locks with a holder or waiter whose owner contains this `text`")
	cmd.Flags().StringVar(&c.Order, "sort", "name", "by "+strings.Join(view.Orders, ", "))
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(view.Orders, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if err := c.Check(); err != nil {
			return usage("--sort: %s", err)
		}
		return nil
	}
}
