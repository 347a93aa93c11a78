package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newEvict(o *options) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "evict NAME [ID]",
		Short: "Take a lock away from its holder, or somebody's place in line",
		Long: `Evict tells the holder that it has lost the lock. The lock passes on when the holder has
stopped its work, or its TTL has run out. With --force it passes on at once, while the
holder may still be at work: two may then work at a time. ID, or its beginning, is as
shown by show; it can be left out if there is one holder. A waiter that is evicted and
still wants the lock lines up again, at the end. A holder of another library is only
asked; one that cannot be asked is an error.`,
		Args:              nameAndID,
		ValidArgsFunction: completeMembers(o, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				m, err := picked(ctx, c, args)
				if err != nil {
					return err
				}
				if err := c.Evict(ctx, args[0], m.ID, force); err != nil {
					return absent(err)
				}
				if m.Foreign && m.Token != 0 && !force {
					fmt.Fprintf(cmd.ErrOrStderr(), "asked %s to give %s up: it is of another library, and holds on if it does not listen\n", owner(m), plain(args[0]))
					return nil
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "evicted %s from %s\n", owner(m), plain(args[0]))
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "pass the lock on at once: unsafe")
	return cmd
}
