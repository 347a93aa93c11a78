package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// demandJSON is how programs see whose place was asked for, or taken away.
type demandJSON struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Owner string `json:"owner"`
}

func newRevoke(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME [ID]",
		Short: "Ask a holder to give the lock up",
		Long: `Revoke asks the holder to give the lock up when it can. Nothing happens if it does not
listen (see run --on-revoke). ID, or its beginning, is as shown by show; it can be left
out if there is one holder.`,
		ValidArgsFunction: completeMembers(o, false),
		RunE: o.with(func(ctx context.Context, t task) error {
			m, err := picked(ctx, t)
			if err != nil {
				return err
			}
			err = absent(t.Admin().Revoke(ctx, t.name, m.ID))
			return o.done(err, t, demandJSON{t.name, m.ID, m.Owner}, fmt.Sprintf("asked %s to give %s up", owner(m), view.Plain(t.name)))
		}),
	}
}

// absent gives somebody who has gone meanwhile the status of one who was not there.
func absent(err error) error {
	if errors.Is(err, interlock.ErrLost) {
		return failed(exitAbsent, err)
	}
	return err
}

// picked reads the lock and finds the member that is meant.
func picked(ctx context.Context, t task) (interlock.Member, error) {
	q, err := t.Admin().Queue(ctx, t.name)
	if err != nil {
		return interlock.Member{}, err
	}
	return pick(q, t.args[1:])
}
