package main

import "github.com/spf13/cobra"

func newEvict(o *options) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "evict NAME [ID]",
		Short: "Take a lock away from its holder, or a waiter out of the line",
		Long: `Evict tells the holder that it has lost the lock. The lock passes on when the holder has
stopped its work, or its TTL has run out; a lock of acquire, when its time has run out,
since its holder may hear of nothing. With --force it passes on at once, while the
holder may still be at work: two may then work at a time. ID, or its beginning, is as
shown by show; it can be left out if there is one holder. A waiter that is evicted and
still wants the lock lines up again, at the end. A holder of another library is only
asked; one that cannot be asked is an error.`,
		ValidArgsFunction: completeIDs(o, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if force {
				return o.demands("force")(cmd, args)
			}
			return o.demands("evict")(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "pass the lock on at once: unsafe")
	return cmd
}
