package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

type permitsJSON struct {
	Name    string `json:"name"`
	Permits int64  `json:"permits"` // in force; 0: nobody uses it, and none were set
	Set     bool   `json:"set"`
}

func newPermits(o *options) *cobra.Command {
	var unset bool
	cmd := &cobra.Command{
		Use:   "permits NAME [N]",
		Short: "Change the number of permits of a semaphore, also while it is in use",
		Long: `Permits sets the number of permits of a semaphore, for all programs, whatever number they say,
until it is unset. Waiters who fit now hold at once. Holders keep what they have, also beyond a
smaller number: nobody else gets a permit until enough have been given back. Who asks for more
permits than there are gets an error.

So a number is changed without an end of service: set it, start the programs with the new number one
after the other, and unset it. Without N the number that is in force is printed.`,
		Example: `  interlock permits exports 8          eight from now on, whatever programs say
  interlock permits exports            which number is in force
  interlock permits exports --unset    once all programs say eight`,
		ValidArgsFunction: completeNames(o),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) <= 1 || unset {
				return exactly("NAME")(cmd, args)
			}
			return exactly("NAME", "N")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var n int64
			if len(args) > 1 {
				var err error
				if n, err = strconv.ParseInt(args[1], 10, 64); err != nil || n < 1 {
					return usage("N %q is not a number of permits", args[1])
				}
			}
			name := args[0]
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				var err error
				switch {
				case unset:
					err = c.UnsetPermits(ctx, name)
				case n > 0:
					err = c.SetPermits(ctx, name, n)
				}
				if err != nil {
					return err
				}
				if n == 0 && (o.json || !unset) {
					q, err := c.Queue(ctx, name)
					if err != nil {
						return err
					}
					if n = q.Capacity; q.Kind != "semaphore" {
						n = 0
					}
					unset = !q.PermitsSet
				}
				switch {
				case o.json:
					return writeJSON(cmd.OutOrStdout(), permitsJSON{name, n, !unset})
				case len(args) > 1:
					fmt.Fprintf(cmd.ErrOrStderr(), "%s has %d permits until that is unset\n", plain(name), n)
				case n > 0:
					_, err = fmt.Fprintln(cmd.OutOrStdout(), n)
				case unset && cmd.Flags().Changed("unset"):
					fmt.Fprintf(cmd.ErrOrStderr(), "%s has as many permits as programs say, once nobody uses it\n", plain(name))
				default:
					fmt.Fprintf(cmd.ErrOrStderr(), "nobody uses a semaphore %s, and no number is set\n", plain(name))
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&unset, "unset", false, "take the number back that was set")
	return cmd
}
