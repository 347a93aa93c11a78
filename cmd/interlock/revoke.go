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
		ValidArgsFunction: completeIDs(o, func(m interlock.Member) bool { return m.Token != 0 }),
		RunE:              o.demands("revoke"),
	}
}

// demands asks for the place of the member that is meant, or takes it away.
func (o *options) demands(do string) func(*cobra.Command, []string) error {
	return o.with(func(ctx context.Context, t task) error {
		m, err := picked(ctx, t)
		if err != nil {
			return err
		}
		said, err := demand(ctx, t.Client, t.name, m, do)
		if do == "evict" && onlyAsked(m, do) {
			said += ": it is of another library, and holds on if it does not listen"
		}
		return o.done(absent(err), t, demandJSON{t.name, m.ID, m.Owner}, said)
	})
}

// demand does what is to be done to a member, revoke, evict or force, and says it.
func demand(ctx context.Context, c *interlock.Client, name string, m interlock.Member, do string) (said string, err error) {
	said = fmt.Sprintf("evicted %s from %s", owner(m), view.Plain(name))
	if onlyAsked(m, do) {
		said = fmt.Sprintf("asked %s to give %s up", owner(m), view.Plain(name))
	}
	if do == "revoke" {
		return said, c.Admin().Revoke(ctx, name, m.ID)
	}
	return said, c.Admin().Evict(ctx, name, m.ID, do == "force")
}

// onlyAsked reports whether a member that does not listen keeps its place.
func onlyAsked(m interlock.Member, do string) bool {
	return do == "revoke" || do == "evict" && m.Foreign && m.Token != 0
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
