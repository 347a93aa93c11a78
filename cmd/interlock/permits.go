package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
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
			if unset {
				return takes("NAME")(cmd, args)
			}
			return takes("NAME", "[N]")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var n int64
			if len(args) > 1 {
				var err error
				if n, err = strconv.ParseInt(args[1], 10, 64); err != nil || n < 1 {
					return usage("N %q is not a number of permits", args[1])
				}
			}
			return o.with(func(ctx context.Context, t task) error {
				var err error
				switch {
				case unset:
					err = t.Admin().UnsetPermits(ctx, t.name)
				case n > 0:
					err = t.Admin().SetPermits(ctx, t.name, n)
				}
				set := n > 0
				if err == nil && !set {
					var q interlock.Queue
					q, err = t.Admin().Queue(ctx, t.name)
					if set = q.PermitsSet; q.Kind == "semaphore" {
						n = q.Capacity
					}
				}
				switch {
				case err != nil:
					return err
				case o.json:
					return writeJSON(cmd.OutOrStdout(), permitsJSON{t.name, n, set})
				case len(args) > 1:
					say(cmd, "%s has %d permits until that is unset", view.Plain(t.name), n)
				case unset:
					say(cmd, "%s has as many permits as programs say, once nobody uses it", view.Plain(t.name))
				case n == 0:
					say(cmd, "nobody uses a semaphore %s, and no number is set", view.Plain(t.name))
				default:
					_, err = fmt.Fprintln(cmd.OutOrStdout(), n)
				}
				return err
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&unset, "unset", false, "take the number back that was set")
	return cmd
}
