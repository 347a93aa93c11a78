package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newRevoke(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME [ID]",
		Short: "Ask a holder to give the lock up",
		Long: `Revoke asks the holder to give the lock up when it can. Nothing happens if it does not
listen (see run --on-revoke). ID, or its beginning, is as shown by show; it can be left
out if there is one holder.`,
		Args:              nameAndID,
		ValidArgsFunction: completeMembers(o, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				m, err := picked(ctx, c, args)
				if err != nil {
					return err
				}
				if err := c.Revoke(ctx, args[0], m.ID); err != nil {
					return absent(err)
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "asked %s to give %s up\n", owner(m), plain(args[0]))
				return nil
			})
		},
	}
}

func nameAndID(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return exactly("NAME", "ID")(cmd, args)
	}
	return exactly("NAME")(cmd, args)
}

// absent gives somebody who has gone meanwhile the status of one who was not there.
func absent(err error) error {
	if errors.Is(err, interlock.ErrLost) {
		return failed(exitAbsent, err)
	}
	return err
}

// picked reads the lock and finds the member that is meant.
func picked(ctx context.Context, c *interlock.Client, args []string) (interlock.Member, error) {
	q, err := c.Queue(ctx, args[0])
	if err != nil {
		return interlock.Member{}, err
	}
	return pick(q, args[1:])
}
